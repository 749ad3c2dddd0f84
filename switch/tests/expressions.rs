//! Expressions against exact integers: random trees over random widths, evaluated by the switch and by num-bigint with
//! BMv2's rules (unlimited integers, cut to the field's width when stored).

mod common;

use common::{Builder, Rng, assign, call, expression, extract, field, hex, op, process, state};
use num_bigint::{BigInt, BigUint, Sign};
use serde_json::{Value, json};

const WIDTHS: &[u32] =
    &[1, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 256, 1000, 2048];

/// An expression, once for the switch and once for the reference.
enum Tree {
    Field(usize),
    Const(BigInt),
    Op(&'static str, Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
    Cond(Box<Cond>, Box<Tree>, Box<Tree>),
    FromBool(Box<Cond>),
}

enum Cond {
    Compare(&'static str, Tree, Tree),
    And(Box<Cond>, Box<Cond>),
    Or(Box<Cond>, Box<Cond>),
    Not(Box<Cond>),
    FromData(Tree),
}

/// An input field.
#[derive(Clone)]
struct Input {
    name: String,
    bits: u32,
    signed: bool,
}

fn mask(bits: u32) -> BigInt {
    (BigInt::from(1) << bits) - 1
}

fn constant(rng: &mut Rng, bits: u32) -> BigInt {
    let ones = mask(bits);
    match rng.below(4) {
        0 => ones,
        1 => BigInt::from(rng.below(3)),
        2 => BigInt::from(1) << rng.below(u64::from(bits)),
        _ => BigInt::from_bytes_be(Sign::Plus, &rng.bytes(bits.div_ceil(8) as usize)) & ones,
    }
}

fn tree(rng: &mut Rng, inputs: &[Input], depth: u32) -> Tree {
    if depth == 0 || rng.below(8) == 0 {
        return match rng.below(4) {
            0 => {
                let bits = WIDTHS[rng.below(WIDTHS.len() as u64) as usize];
                Tree::Const(constant(rng, bits))
            }
            _ => Tree::Field(rng.below(inputs.len() as u64) as usize),
        };
    }
    let sub = |rng: &mut Rng| Box::new(tree(rng, inputs, depth - 1));
    match rng.below(17) {
        0 | 1 => Tree::Op("+", sub(rng), sub(rng)),
        2 | 3 => Tree::Op("-", sub(rng), sub(rng)),
        4 => Tree::Op("*", sub(rng), sub(rng)),
        5 | 6 => Tree::Op("&", sub(rng), sub(rng)),
        7 => Tree::Op("|", sub(rng), sub(rng)),
        8 => Tree::Op("^", sub(rng), sub(rng)),
        // Shifted by a constant, or by a field of up to 9 bits, as p4c does.
        9 | 10 => {
            let name = if rng.below(2) == 0 { "<<" } else { ">>" };
            let left = sub(rng);
            Tree::Op(name, left, Box::new(shift_count(rng, inputs)))
        }
        11 => {
            // The usual cut to a width.
            let bits = WIDTHS[rng.below(WIDTHS.len() as u64) as usize];
            Tree::Op("&", sub(rng), Box::new(Tree::Const(mask(bits))))
        }
        12 => Tree::Not(sub(rng)),
        13 => {
            let width = WIDTHS[1 + rng.below(WIDTHS.len() as u64 - 1) as usize];
            Tree::Op("two_comp_mod", sub(rng), Box::new(Tree::Const(width.into())))
        }
        14 => {
            let width = WIDTHS[1 + rng.below(WIDTHS.len() as u64 - 1) as usize];
            let name = if rng.below(2) == 0 { "usat_cast" } else { "sat_cast" };
            Tree::Op(name, sub(rng), Box::new(Tree::Const(width.into())))
        }
        15 => Tree::Cond(Box::new(cond(rng, inputs, depth - 1)), sub(rng), sub(rng)),
        _ => Tree::FromBool(Box::new(cond(rng, inputs, depth - 1))),
    }
}

fn shift_count(rng: &mut Rng, inputs: &[Input]) -> Tree {
    let small: Vec<usize> =
        (0..inputs.len()).filter(|i| inputs[*i].bits <= 9 && !inputs[*i].signed).collect();
    match small.get(rng.below(2 * small.len().max(1) as u64) as usize) {
        Some(i) => Tree::Field(*i),
        None => Tree::Const(BigInt::from(rng.below(300))),
    }
}

fn cond(rng: &mut Rng, inputs: &[Input], depth: u32) -> Cond {
    let compare = ["==", "!=", "<", "<=", ">", ">="];
    if depth == 0 {
        let name = compare[rng.below(6) as usize];
        return Cond::Compare(name, tree(rng, inputs, 0), tree(rng, inputs, 0));
    }
    match rng.below(8) {
        0 => Cond::And(Box::new(cond(rng, inputs, depth - 1)), Box::new(cond(rng, inputs, depth - 1))),
        1 => Cond::Or(Box::new(cond(rng, inputs, depth - 1)), Box::new(cond(rng, inputs, depth - 1))),
        2 => Cond::Not(Box::new(cond(rng, inputs, depth - 1))),
        3 => Cond::FromData(tree(rng, inputs, depth - 1)),
        _ => {
            let name = compare[rng.below(6) as usize];
            Cond::Compare(name, tree(rng, inputs, depth - 1), tree(rng, inputs, depth - 1))
        }
    }
}

fn to_json(tree: &Tree, inputs: &[Input]) -> Value {
    match tree {
        Tree::Field(i) => field("in", &inputs[*i].name),
        Tree::Const(n) => hex(&format!("0x{n:x}")),
        Tree::Op(name, a, b) => op(name, to_json(a, inputs), to_json(b, inputs)),
        Tree::Not(a) => op("~", Value::Null, to_json(a, inputs)),
        Tree::Cond(c, a, b) => json!({"type": "expression", "value": {"op": "?", "left": to_json(a, inputs),
            "right": to_json(b, inputs), "cond": cond_json(c, inputs)}}),
        Tree::FromBool(c) => op("b2d", Value::Null, cond_json(c, inputs)),
    }
}

fn cond_json(cond: &Cond, inputs: &[Input]) -> Value {
    match cond {
        Cond::Compare(name, a, b) => op(name, to_json(a, inputs), to_json(b, inputs)),
        Cond::And(a, b) => op("and", cond_json(a, inputs), cond_json(b, inputs)),
        Cond::Or(a, b) => op("or", cond_json(a, inputs), cond_json(b, inputs)),
        Cond::Not(a) => op("not", Value::Null, cond_json(a, inputs)),
        Cond::FromData(a) => op("d2b", Value::Null, to_json(a, inputs)),
    }
}

fn signed_of(value: &BigInt, bits: u32) -> BigInt {
    let value = value & mask(bits);
    if value.bit(u64::from(bits) - 1) { value - (BigInt::from(1) << bits) } else { value }
}

fn eval(tree: &Tree, values: &[BigInt]) -> BigInt {
    let small = |n: &BigInt| u32::try_from(n).unwrap();
    match tree {
        Tree::Field(i) => values[*i].clone(),
        Tree::Const(n) => n.clone(),
        Tree::Not(a) => -eval(a, values) - 1,
        Tree::Cond(c, a, b) => eval(if holds(c, values) { a } else { b }, values),
        Tree::FromBool(c) => BigInt::from(u8::from(holds(c, values))),
        Tree::Op(name, a, b) => {
            let (a, b) = (eval(a, values), eval(b, values));
            match *name {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                "%" => a % b,
                "&" => a & b,
                "|" => a | b,
                "^" => a ^ b,
                "<<" => a << small(&b),
                ">>" => a >> small(&b),
                "two_comp_mod" => signed_of(&a, small(&b)),
                "usat_cast" => a.clamp(BigInt::from(0), mask(small(&b))),
                "sat_cast" => {
                    let half = BigInt::from(1) << (small(&b) - 1);
                    a.clamp(-half.clone(), half - 1)
                }
                other => panic!("operator {other}"),
            }
        }
    }
}

fn holds(cond: &Cond, values: &[BigInt]) -> bool {
    match cond {
        Cond::And(a, b) => holds(a, values) && holds(b, values),
        Cond::Or(a, b) => holds(a, values) || holds(b, values),
        Cond::Not(a) => !holds(a, values),
        Cond::FromData(a) => eval(a, values) != BigInt::from(0),
        Cond::Compare(name, a, b) => {
            let order = eval(a, values).cmp(&eval(b, values));
            match *name {
                "==" => order.is_eq(),
                "!=" => order.is_ne(),
                "<" => order.is_lt(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_ge(),
            }
        }
    }
}

/// Fields of a header packed into bytes, padded at the end as the builder does.
fn pack(fields: &[(u32, BigUint)]) -> Vec<u8> {
    let total: u32 = fields.iter().map(|(bits, _)| bits).sum();
    let mut all = BigUint::from(0u8);
    for (bits, value) in fields {
        all = (all << *bits) | value;
    }
    all <<= total.next_multiple_of(8) - total;
    let n = total.div_ceil(8) as usize;
    let bytes = all.to_bytes_be();
    let mut out = vec![0; n.saturating_sub(bytes.len())];
    out.extend(&bytes[bytes.len().saturating_sub(n)..]);
    out
}

fn unpack(bytes: &[u8], widths: &[u32]) -> Vec<BigUint> {
    let all = BigUint::from_bytes_be(bytes);
    let mut below = bytes.len() as u32 * 8;
    widths
        .iter()
        .map(|bits| {
            below -= bits;
            (&all >> below) & ((BigUint::from(1u8) << *bits) - 1u8)
        })
        .collect()
}

/// Runs trees over some input values; each result goes to a field of each of the widths.
fn check(
    seed: u64,
    inputs: &[Input],
    trees: &[Tree],
    out_widths: &[(u32, bool)],
    rounds: usize,
    rng: &mut Rng,
) {
    let mut b = Builder::new();
    let in_fields: Vec<_> = inputs.iter().map(|i| (i.name.as_str(), i.bits, i.signed)).collect();
    b.header("in", &in_fields, false);
    let names: Vec<String> = (0..trees.len()).map(|i| format!("r{i}")).collect();
    let out_fields: Vec<_> = names.iter().zip(out_widths).map(|(n, (w, s))| (n.as_str(), *w, *s)).collect();
    b.header("out", &out_fields, false);
    b.states(json!([state("start", vec![extract("in")], None)]));
    let header = |h: &str| json!({"type": "header", "value": h});
    let mut primitives = vec![call("add_header", vec![header("out")])];
    for (name, tree) in names.iter().zip(trees) {
        primitives.push(assign("out", name, expression(to_json(tree, inputs))));
    }
    primitives.push(call("remove_header", vec![header("in")]));
    primitives.push(assign("standard_metadata", "egress_spec", hex("0x1")));
    let action = b.action("compute", &[], primitives);
    b.run(0, action);
    let mut switch = b.switch();
    for round in 0..rounds {
        let raw: Vec<BigUint> = inputs
            .iter()
            .map(|i| match rng.below(4) {
                0 => BigUint::from(0u8),
                1 => (BigUint::from(1u8) << i.bits) - 1u8,
                _ => {
                    BigUint::from_bytes_be(&rng.bytes(i.bits.div_ceil(8) as usize))
                        & ((BigUint::from(1u8) << i.bits) - 1u8)
                }
            })
            .collect();
        let values: Vec<BigInt> = inputs
            .iter()
            .zip(&raw)
            .map(|(i, v)| {
                let v = BigInt::from(v.clone());
                if i.signed { signed_of(&v, i.bits) } else { v }
            })
            .collect();
        let packed: Vec<_> = inputs.iter().map(|i| i.bits).zip(raw.iter().cloned()).collect();
        let out = process(&mut switch, 3, &pack(&packed));
        assert_eq!(out.len(), 1, "seed {seed}");
        let widths: Vec<u32> = out_widths.iter().map(|(w, _)| *w).collect();
        for (i, got) in unpack(&out[0].1, &widths).into_iter().enumerate() {
            let want = eval(&trees[i], &values) & mask(widths[i]);
            assert_eq!(
                BigInt::from(got),
                want,
                "seed {seed} round {round} into {:?}: {} with {:?}",
                out_widths[i],
                to_json(&trees[i], inputs),
                values
            );
        }
    }
    assert_eq!(switch.faults(), Default::default());
}

fn inputs(rng: &mut Rng) -> Vec<Input> {
    let mut inputs: Vec<Input> = (0..6)
        .map(|i| {
            let bits = WIDTHS[rng.below(WIDTHS.len() as u64) as usize];
            Input { name: format!("f{i}"), bits, signed: bits > 1 && rng.below(3) == 0 }
        })
        .collect();
    inputs.push(Input { name: "shift8".to_owned(), bits: 8, signed: false });
    inputs
}

#[test]
fn random_trees_equal_exact_integers() {
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let inputs = inputs(&mut rng);
        let depth = 1 + (seed % 4) as u32;
        let trees: Vec<Tree> = (0..6).map(|_| tree(&mut rng, &inputs, depth)).collect();
        let widths: Vec<_> = trees
            .iter()
            .map(|_| {
                let bits = WIDTHS[rng.below(WIDTHS.len() as u64) as usize];
                (bits, bits > 1 && rng.below(4) == 0)
            })
            .collect();
        check(seed, &inputs, &trees, &widths, 12, &mut rng);
    }
}

/// Every operator by itself, over every pair of widths.
#[test]
fn each_operator_over_widths() {
    let mut rng = Rng(99);
    for a in WIDTHS {
        for b in [1, 8, 64, 65, 2048] {
            let input = |name: &str, bits| Input { name: name.to_owned(), bits, signed: false };
            let inputs = [input("a", *a), input("b", b), input("s", 8)];
            let f = |i| Box::new(Tree::Field(i));
            let mut trees = Vec::new();
            for name in ["+", "-", "*", "&", "|", "^"] {
                trees.push(Tree::Op(name, f(0), f(1)));
            }
            for name in ["<<", ">>"] {
                trees.push(Tree::Op(name, f(0), f(2)));
            }
            for name in ["==", "!=", "<", "<=", ">", ">="] {
                let compare = Cond::Compare(name, Tree::Field(0), Tree::Field(1));
                trees.push(Tree::FromBool(Box::new(compare)));
            }
            trees.push(Tree::Not(f(0)));
            let widths: Vec<_> = trees.iter().map(|_| (*a, false)).collect();
            check(u64::from(*a), &inputs, &trees, &widths, 10, &mut rng);
        }
    }
}

#[test]
fn division_by_what_is_not_zero() {
    let mut rng = Rng(5);
    for a in [8, 33, 64, 65, 200, 2048] {
        let inputs = [Input { name: "a".to_owned(), bits: a, signed: false }];
        let mut trees = Vec::new();
        for divisor in [1u64, 2, 3, 10, 255, 1 << 40, u64::MAX] {
            for name in ["/", "%"] {
                trees.push(Tree::Op(name, Box::new(Tree::Field(0)), Box::new(Tree::Const(divisor.into()))));
            }
        }
        let widths: Vec<_> = trees.iter().map(|_| (a, false)).collect();
        check(u64::from(a), &inputs, &trees, &widths, 20, &mut rng);
    }
}

#[test]
fn division_by_zero_gives_zero_and_is_counted() {
    let mut b = Builder::new();
    b.header("h", &[("a", 64, false), ("b", 64, false)], false);
    b.states(json!([state("start", vec![extract("h")], None)]));
    let quotient = expression(op("/", field("h", "a"), field("h", "b")));
    let action = b.action(
        "divide",
        &[],
        vec![assign("h", "a", quotient), assign("standard_metadata", "egress_spec", hex("0x1"))],
    );
    b.run(0, action);
    let mut switch = b.switch();
    let out = process(&mut switch, 1, &[[1u8; 8], [0; 8]].concat());
    assert_eq!(out, vec![(1, vec![0; 16])]);
    assert_eq!(switch.faults().division_by_zero, 1);
}
