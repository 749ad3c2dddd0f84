/* inca: in-network collectives on P4 switches. One process is one rank of a job.
 *
 * Written by cbindgen from capi/src: change it there, then INCA_WRITE_HEADER=1 cargo test -p inca-capi.
 *
 * Functions return INCA_STATUS_OK or what went wrong; inca_last_error() then says it in words, for the calling thread.
 * Groups may be used from several threads, but all ranks must start the same operations in the same order.
 */

#ifndef INCA_H
#define INCA_H

#include <stddef.h>
#include <stdint.h>

// What became of a call.
typedef enum inca_status {
  // It succeeded.
  INCA_STATUS_OK = 0,
  // An argument makes no sense: null, an unknown code, a count that does not go with the collective. Nothing was sent.
  INCA_STATUS_INVALID_ARGUMENT = 1,
  // The job's number format does not carry this type through this reduction. Nothing was sent.
  INCA_STATUS_UNSUPPORTED = 2,
  // Joining failed: controller, missing ranks, interface.
  INCA_STATUS_JOIN_FAILED = 3,
  // The deadline passed. The group has ended.
  INCA_STATUS_DEADLINE_EXCEEDED = 4,
  // Ranks called different operations. The group has ended.
  INCA_STATUS_MISMATCH = 5,
  // An integer sum does not fit; every rank gets this, and the group goes on.
  INCA_STATUS_OVERFLOW = 6,
  // The group has ended: a rank died, gave up or left.
  INCA_STATUS_CLOSED = 7,
  // Another rank's host could not be reached, or an exchange failed.
  INCA_STATUS_PEER_FAILED = 8,
  // It has not ended in the time given; it goes on.
  INCA_STATUS_PENDING = 9,
  // Anything else; see `inca_last_error`.
  INCA_STATUS_FAILED = 10,
} inca_status;

// Element types.
typedef enum inca_type {
  // IEEE 754 binary32.
  INCA_TYPE_F32 = 1,
  // 32-bit integers.
  INCA_TYPE_I32 = 2,
  // IEEE 754 binary16.
  INCA_TYPE_F16 = 3,
  // bfloat16.
  INCA_TYPE_BF16 = 4,
  // OCP 8-bit floats, E4M3.
  INCA_TYPE_F8E4M3 = 5,
  // OCP 8-bit floats, E5M2.
  INCA_TYPE_F8E5M2 = 6,
  // 8-bit integers.
  INCA_TYPE_I8 = 7,
  // 16-bit integers.
  INCA_TYPE_I16 = 8,
  // 64-bit integers.
  INCA_TYPE_I64 = 9,
  // Unsigned 8-bit integers.
  INCA_TYPE_U8 = 10,
  // 4-bit integers, two in a byte, the first in the low half; counts are of elements.
  INCA_TYPE_I4 = 11,
} inca_type;

// Reductions.
typedef enum inca_reduction {
  // The sum over all ranks.
  INCA_REDUCTION_SUM = 1,
  // The sum divided by the number of ranks.
  INCA_REDUCTION_AVERAGE = 2,
  // The smallest element.
  INCA_REDUCTION_MIN = 3,
  // The largest element.
  INCA_REDUCTION_MAX = 4,
} inca_reduction;

// One rank's membership in a group.
typedef struct inca_group inca_group;

// An operation under way. Its memory must not be touched until `inca_wait` has returned something else than INCA_STATUS_PENDING.
typedef struct inca_operation inca_operation;

// What to join, and as whom. `inca_options_init` fills in what has a default; strings must live until `inca_join` returns.
typedef struct inca_options {
  // The controller's address, as http://192.0.2.1:9559; several, separated by commas.
  const char *controller;
  // Name of the job.
  const char *job;
  // Group inside the job; null: all of it.
  const char *group;
  // This rank, from 0.
  uint32_t rank;
  // Ranks of the group.
  uint32_t world;
  // What is reduced, an `inca_type`, and how, an `inca_reduction`: they choose the number format, unless `format` names one.
  int32_t dtype;
  // See `dtype`.
  int32_t reduction;
  // Number format on the wire, as bfp16; null: the default.
  const char *format;
  // Words of 2048 bits per packet, 1 to 32.
  uint8_t chunk_words;
  // The data-plane interface; null: the only one there is.
  const char *interface_name;
  // Not 0: the group goes on without ranks that die.
  int32_t shrink;
  // Not 0: without a reduction tree the hosts sum in a ring over TCP.
  int32_t ring;
  // Seconds to wait for the controller, the other ranks and the trees.
  double timeout;
  // The token that the controller wants; null: none.
  const char *token;
  // File of the certificates (PEM) that vouch for a controller at https://; null: none.
  const char *ca;
  // The job's token: what its submission was answered with, or a secret of 16 to 256 bytes of its ranks; null: none.
  const char *job_token;
  // Not 0: where the switches have no room, the group waits for its turn instead of being refused.
  int32_t queue;
} inca_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The last error of the calling thread in words; empty if there was none. Valid until the thread's next call.
const char *inca_last_error(void);

// Fills in defaults: f32 sums in bfp16, 5 words, a minute to join.
//
// # Safety
//
// `options` must be null or point to memory for one `inca_options`.
void inca_options_init(struct inca_options *options);

// Joins a job: waits until all ranks are there and their trees are installed.
//
// # Safety
//
// `options` must be null or point to options whose strings are null or end with a zero byte; `group` null or to memory for a pointer.
enum inca_status inca_join(const struct inca_options *options,
                           struct inca_group **group);

// Leaves the job; the group is gone afterwards, whatever is returned. Calls under way fail, here and at the other ranks; operations that
// were started must be freed all the same. Null is nothing.
//
// # Safety
//
// `group` must be null or come from this library and not have been left; no other thread may use it any more.
enum inca_status inca_leave(struct inca_group *group);

// This rank; 0 of a null group.
//
// # Safety
//
// `group` must be null or a group that was not left.
uint32_t inca_rank(const struct inca_group *group);

// Ranks of the group, now; 0 of a null group.
//
// # Safety
//
// `group` must be null or a group that was not left.
uint32_t inca_world_size(const struct inca_group *group);

// Splits the group: ranks of one color form a new one, ordered by key, then by rank. A negative color: this rank joins none, and gets null.
// A collective: all ranks must call it.
//
// # Safety
//
// `group` must be null or a group that was not left; `part` null or point to memory for a pointer.
enum inca_status inca_split(const struct inca_group *group,
                            int32_t color,
                            int32_t key,
                            double timeout,
                            struct inca_group **part);

// Waits at most so many seconds (infinity: for ever) until an operation has ended; what became of it, or INCA_STATUS_PENDING.
//
// # Safety
//
// `operation` must be null or come from this library and not have been freed.
enum inca_status inca_wait(const struct inca_operation *operation,
                           double timeout);

// Frees an operation. One that has not ended is given up first, which ends the group for all ranks; this returns when its memory is not
// used any more. Null is nothing.
//
// # Safety
//
// `operation` must be null or come from this library and not have been freed; no other thread may wait for it.
void inca_free(struct inca_operation *operation);

// Reduces `count` elements over all ranks. `output` may be `input`. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_allreduce(const struct inca_group *group,
                                const void *input,
                                void *output,
                                size_t count,
                                int32_t dtype,
                                int32_t reduction,
                                double timeout);

// As `inca_allreduce`; returns at once. The operation must be freed.
//
// # Safety
//
// As `inca_allreduce`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
enum inca_status inca_start_allreduce(const struct inca_group *group,
                                      const void *input,
                                      void *output,
                                      size_t count,
                                      int32_t dtype,
                                      int32_t reduction,
                                      double timeout,
                                      struct inca_operation **operation);

// Reduces `count` elements over all ranks to the root; elsewhere `output` is not used. `output` may be `input`. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_reduce(const struct inca_group *group,
                             const void *input,
                             void *output,
                             size_t count,
                             int32_t dtype,
                             int32_t reduction,
                             uint32_t root,
                             double timeout);

// As `inca_reduce`; returns at once. The operation must be freed.
//
// # Safety
//
// As `inca_reduce`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
enum inca_status inca_start_reduce(const struct inca_group *group,
                                   const void *input,
                                   void *output,
                                   size_t count,
                                   int32_t dtype,
                                   int32_t reduction,
                                   uint32_t root,
                                   double timeout,
                                   struct inca_operation **operation);

// Copies the root's `count` elements to all ranks. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_broadcast(const struct inca_group *group,
                                void *data,
                                size_t count,
                                int32_t dtype,
                                uint32_t root,
                                double timeout);

// As `inca_broadcast`; returns at once. The operation must be freed.
//
// # Safety
//
// As `inca_broadcast`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
enum inca_status inca_start_broadcast(const struct inca_group *group,
                                      void *data,
                                      size_t count,
                                      int32_t dtype,
                                      uint32_t root,
                                      double timeout,
                                      struct inca_operation **operation);

// Puts all ranks' `count` elements one behind the other; `output` has `count` for each rank. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_allgather(const struct inca_group *group,
                                const void *input,
                                void *output,
                                size_t count,
                                int32_t dtype,
                                double timeout);

// As `inca_allgather`; returns at once. The operation must be freed.
//
// # Safety
//
// As `inca_allgather`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
enum inca_status inca_start_allgather(const struct inca_group *group,
                                      const void *input,
                                      void *output,
                                      size_t count,
                                      int32_t dtype,
                                      double timeout,
                                      struct inca_operation **operation);

// Reduces `count` elements for each rank; `output` has the `count` of this one. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable and writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_reduce_scatter(const struct inca_group *group,
                                     const void *input,
                                     void *output,
                                     size_t count,
                                     int32_t dtype,
                                     int32_t reduction,
                                     double timeout);

// As `inca_reduce_scatter`; returns at once. The operation must be freed.
//
// # Safety
//
// As `inca_reduce_scatter`, until `inca_wait` has returned something else than INCA_STATUS_PENDING.
enum inca_status inca_start_reduce_scatter(const struct inca_group *group,
                                           const void *input,
                                           void *output,
                                           size_t count,
                                           int32_t dtype,
                                           int32_t reduction,
                                           double timeout,
                                           struct inca_operation **operation);

// Returns when all ranks have called it.
//
// # Safety
//
// `group` must be null or a group that was not left.
enum inca_status inca_barrier(const struct inca_group *group, double timeout);

// Exchanges parts: input and output have `count` elements for each rank; part j of rank i's input becomes part i of rank j's output. Blocks; no
// other operation of the group may be started meanwhile. The two must be apart.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_alltoall(const struct inca_group *group,
                               const void *input,
                               void *output,
                               size_t count,
                               int32_t dtype,
                               double timeout);

// Tells all ranks where this one listens. A collective: needed once, before anyone sends or receives.
//
// # Safety
//
// `group` must be null or a group that was not left.
enum inca_status inca_connect_peers(const struct inca_group *group,
                                    double timeout);

// Sends `count` elements to another rank, which must receive them with the same tag. Returns when they are on their way.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_send(const struct inca_group *group,
                           const void *data,
                           size_t count,
                           int32_t dtype,
                           uint32_t to,
                           uint32_t tag,
                           double timeout);

// Receives `count` elements from another rank. Blocks.
//
// # Safety
//
// `group` must be null or a group that was not left; the memory of so many elements must be readable or writable as said, and nothing else may
// use it meanwhile.
enum inca_status inca_recv(const struct inca_group *group,
                           void *data,
                           size_t count,
                           int32_t dtype,
                           uint32_t from,
                           uint32_t tag,
                           double timeout);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* INCA_H */
