-- Dissects inca's reduction packets (docs/protocol.md, version 1) for Wireshark and tshark.
--
-- By UDP port 18766, which every packet towards a switch is sent to, and by shape where the port is another one: results go to whatever
-- port a host's agent listens on. Contributions, their repetitions and their results are linked with each other.

local inca = Proto("inca", "In-network reduction (inca)")

local VERSION, PORT, HEADER, WORD, MOST_WORDS = 1, 18766, 40, 256, 32
local PARENT, BOTH_PLANES, EXP_BIAS = 0xFFFF, 2, 16384

local OPCODES = {
  [1] = "CONTRIBUTION", [2] = "PARTIAL", [3] = "RESULT", [4] = "PROBE", [5] = "PROBE_REPLY", [6] = "ANNOUNCE",
}
local CONTRIBUTION, PARTIAL, RESULT, PROBE, PROBE_REPLY = 1, 2, 3, 4, 5
local FORMATS = {
  [1] = "i32", [2] = "bfp16", [3] = "i8", [4] = "i16", [5] = "i64", [6] = "bfp8", [7] = "bfp32", [8] = "exact",
  [9] = "max8", [10] = "max16", [11] = "max32", [12] = "max64",
}
local FLAGS = { { 0x01, "MISMATCH" }, { 0x02, "RANGE" }, { 0x04, "NONFINITE" }, { 0x08, "OVERFLOW" }, { 0x80, "DONE" } }

local f = {
  version = ProtoField.uint8("inca.version", "Version"),
  opcode = ProtoField.uint8("inca.opcode", "Opcode", base.DEC, OPCODES),
  flags = ProtoField.uint8("inca.flags", "Flags", base.HEX),
  mismatch = ProtoField.bool("inca.flags.mismatch", "Mismatch: contributions of different operations met", 8, nil, 0x01),
  range = ProtoField.bool("inca.flags.range", "Range: exponents too far apart", 8, nil, 0x02),
  nonfinite = ProtoField.bool("inca.flags.nonfinite", "Non-finite: NaN or infinities", 8, nil, 0x04),
  overflow = ProtoField.bool("inca.flags.overflow", "Overflow: a sum does not fit its lane", 8, nil, 0x08),
  done = ProtoField.bool("inca.flags.done", "Done: the sequence is finished", 8, nil, 0x80),
  format = ProtoField.uint8("inca.format", "Format", base.DEC, FORMATS),
  tree = ProtoField.uint16("inca.tree_id", "Tree"),
  member = ProtoField.uint16("inca.member", "Member"),
  generation = ProtoField.uint32("inca.generation", "Generation"),
  slot = ProtoField.uint32("inca.slot", "Slot"),
  sequence = ProtoField.uint32("inca.sequence", "Sequence"),
  tag = ProtoField.uint32("inca.tag", "Operation tag", base.HEX),
  plane = ProtoField.uint8("inca.plane", "Plane"),
  words = ProtoField.uint8("inca.words", "Words"),
  contributions = ProtoField.uint16("inca.contributions", "Contributions"),
  exp_max = ProtoField.uint16("inca.exp_max", "Largest exponent"),
  exp_min = ProtoField.uint16("inca.exp_min", "Smallest exponent"),
  bias = ProtoField.uint64("inca.bias", "Bias", base.HEX),
  children = ProtoField.uint64("inca.children", "Children that have arrived", base.HEX),
  word = ProtoField.bytes("inca.word", "Word"),
  request_in = ProtoField.framenum("inca.request_in", "Contribution in", base.NONE, frametype.REQUEST),
  response_in = ProtoField.framenum("inca.response_in", "Result in", base.NONE, frametype.RESPONSE),
  repeats = ProtoField.framenum("inca.repetition_of", "Repetition of", base.NONE, frametype.RETRANS_PREV),
  time = ProtoField.relative_time("inca.time", "Since the contribution"),
}
inca.fields = f

local e = {
  length = ProtoExpert.new("inca.length", "The length does not agree with the word count: switches drop it", expert.group.MALFORMED, expert.severity.ERROR),
  version = ProtoExpert.new("inca.version.unknown", "Another version of the protocol", expert.group.UNDECODED, expert.severity.WARN),
  words = ProtoExpert.new("inca.words.wrong", "Words just where neither flags nor opcode forbid them", expert.group.PROTOCOL, expert.severity.ERROR),
  plane = ProtoExpert.new("inca.plane.wrong", "Partials have plane 0 or 1, all others 2", expert.group.PROTOCOL, expert.severity.ERROR),
  flagged = ProtoExpert.new("inca.flagged", "Flagged: the sum is void, no words follow", expert.group.RESPONSE_CODE, expert.severity.NOTE),
  repeated = ProtoExpert.new("inca.repeated", "The same contribution was sent before", expert.group.SEQUENCE, expert.severity.NOTE),
}
inca.experts = { e.length, e.version, e.words, e.plane, e.flagged, e.repeated }

-- By tree, generation, slot, sequence and member: the first contribution, the first result; by frame: what it repeats.
local contributions, results, repeats
function inca.init()
  contributions, results, repeats = {}, {}, {}
end

local function flag_names(bits)
  local names = {}
  for _, flag in ipairs(FLAGS) do
    if bit.band(bits, flag[1]) ~= 0 then names[#names + 1] = flag[2] end
  end
  return #names > 0 and table.concat(names, ", ") or "none"
end

local function exponent(value)
  if value == 0 or value == 0xFFFF then return "nothing but zeros" end
  return string.format("2^%d", value - EXP_BIAS)
end

-- Contributions and results of one chunk at one host, each linked with the other.
local function link(tree, pinfo, opcode, key)
  if not pinfo.visited then
    if opcode == CONTRIBUTION then
      local first = contributions[key]
      if first then repeats[pinfo.number] = first.number
      else contributions[key] = { number = pinfo.number, time = pinfo.rel_ts } end
    elseif not results[key] then
      results[key] = pinfo.number
    end
  end
  if opcode == CONTRIBUTION then
    if repeats[pinfo.number] then
      tree:add(f.repeats, repeats[pinfo.number]):set_generated()
      tree:add_proto_expert_info(e.repeated)
    end
    if results[key] then tree:add(f.response_in, results[key]):set_generated() end
  elseif contributions[key] then
    tree:add(f.request_in, contributions[key].number):set_generated()
    local nanoseconds = math.floor((pinfo.rel_ts - contributions[key].time) * 1e9 + 0.5)
    if nanoseconds >= 0 then
      tree:add(f.time, NSTime.new(math.floor(nanoseconds / 1e9), nanoseconds % 1000000000)):set_generated()
    end
  end
end

function inca.dissector(buffer, pinfo, root)
  if buffer:len() < HEADER then return 0 end
  pinfo.cols.protocol = "inca"
  local tree = root:add(inca, buffer())
  local at = function(from, length) return buffer(from, length) end
  local opcode, flags, format = at(1, 1):uint(), at(2, 1):uint(), at(3, 1):uint()
  local tree_id, member, generation = at(4, 2):uint(), at(6, 2):uint(), at(8, 4):uint()
  local slot, sequence, plane, words = at(12, 4):uint(), at(16, 4):uint(), at(24, 1):uint(), at(25, 1):uint()

  local version = tree:add(f.version, at(0, 1))
  if at(0, 1):uint() ~= VERSION then version:add_proto_expert_info(e.version) end
  tree:add(f.opcode, at(1, 1))
  local flag_tree = tree:add(f.flags, at(2, 1)):append_text(" (" .. flag_names(flags) .. ")")
  for _, name in ipairs({ "mismatch", "range", "nonfinite", "overflow", "done" }) do flag_tree:add(f[name], at(2, 1)) end
  tree:add(f.format, at(3, 1))
  tree:add(f.tree, at(4, 2))
  local from_parent = opcode == RESULT and member == PARENT
  tree:add(f.member, at(6, 2)):append_text(from_parent and " (from the parent)" or "")
  tree:add(f.generation, at(8, 4))
  tree:add(f.slot, at(12, 4))
  tree:add(f.sequence, at(16, 4))
  tree:add(f.tag, at(20, 4))
  local plane_item = tree:add(f.plane, at(24, 1)):append_text(plane == BOTH_PLANES and " (both)" or "")
  if (opcode == PARTIAL) ~= (plane < BOTH_PLANES) then plane_item:add_proto_expert_info(e.plane) end
  local words_item = tree:add(f.words, at(25, 1))
  tree:add(f.contributions, at(26, 2))
  tree:add(f.exp_max, at(28, 2)):append_text(" (" .. exponent(at(28, 2):uint()) .. ")")
  tree:add(f.exp_min, at(30, 2)):append_text(" (" .. exponent(at(30, 2):uint()) .. ")")
  tree:add(opcode == PROBE_REPLY and f.children or f.bias, at(32, 8))

  local carries = flags == 0 and (opcode == CONTRIBUTION or opcode == PARTIAL or opcode == RESULT)
  if carries ~= (words > 0) then words_item:add_proto_expert_info(e.words) end
  -- A capture may hold the beginning alone.
  if words > MOST_WORDS or buffer:reported_len() ~= HEADER + words * WORD then words_item:add_proto_expert_info(e.length) end
  if flags ~= 0 and opcode ~= PROBE_REPLY then flag_tree:add_proto_expert_info(e.flagged) end
  for index = 0, words - 1 do
    local from = HEADER + index * WORD
    if from + WORD > buffer:len() then break end
    tree:add(f.word, at(from, WORD)):prepend_text("[" .. index .. "] ")
  end

  if opcode == CONTRIBUTION or (opcode == RESULT and not from_parent) then
    link(tree, pinfo, opcode, table.concat({ tree_id, generation, slot, sequence, member }, ":"))
  end

  local name = OPCODES[opcode] or ("opcode " .. opcode)
  local who = from_parent and "from the parent" or "member " .. member
  local text = string.format("%s tree %d %s", name, tree_id, who)
  if opcode ~= 6 then text = text .. string.format(" slot %d seq %d gen %d", slot, sequence, generation) end
  if opcode == PARTIAL then text = text .. " plane " .. plane end
  text = text .. " " .. (FORMATS[format] or "format " .. format)
  if words > 0 then text = text .. string.format(" %d word%s", words, words == 1 and "" or "s") end
  if flags ~= 0 then text = text .. " [" .. flag_names(flags) .. "]" end
  pinfo.cols.info = text
  tree:append_text(", " .. text)
  return buffer:len()
end

-- A datagram of a shape that hardly anything else has.
local function heuristic(buffer, pinfo, root)
  local length = buffer:reported_len()
  if length < HEADER or buffer:len() < HEADER then return false end
  local words = buffer(25, 1):uint()
  local is_ours = buffer(0, 1):uint() == VERSION and OPCODES[buffer(1, 1):uint()] ~= nil and FORMATS[buffer(3, 1):uint()] ~= nil
    and buffer(24, 1):uint() <= BOTH_PLANES and words <= MOST_WORDS and length == HEADER + words * WORD
  if not is_ours then return false end
  inca.dissector(buffer, pinfo, root)
  return true
end

DissectorTable.get("udp.port"):add(PORT, inca)
inca:register_heuristic("udp", heuristic)
