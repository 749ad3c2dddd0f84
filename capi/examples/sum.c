/* One rank that sums through the switches, from C.
 *
 *   cc -I include capi/examples/sum.c -L target/release -linca -o sum
 *   ./sum http://192.0.2.1:9559 job 0 4 eth1
 */
#include <inca.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 10000 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, inca_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    static int32_t tensor[COUNT], parts[COUNT];
    inca_options options;
    inca_group *group = NULL;
    inca_operation *operation = NULL;
    uint32_t rank, world, wrong = 0;

    if (argc != 6) {
        fprintf(stderr, "usage: %s CONTROLLER JOB RANK WORLD INTERFACE\n", argv[0]);
        return 2;
    }
    inca_options_init(&options);
    options.controller = argv[1];
    options.job = argv[2];
    options.rank = (uint32_t)atoi(argv[3]);
    options.world = (uint32_t)atoi(argv[4]);
    options.interface_name = argv[5];
    options.dtype = INCA_TYPE_I32;
    if (inca_join(&options, &group) != INCA_STATUS_OK)
        return failed("join");
    rank = inca_rank(group);
    world = inca_world_size(group);

    /* Started, and waited for later: in place. */
    for (int32_t i = 0; i < COUNT; i++)
        tensor[i] = i * (int32_t)(rank + 1);
    if (inca_start_allreduce(group, tensor, tensor, COUNT, INCA_TYPE_I32, INCA_REDUCTION_SUM, 20.0, &operation))
        return failed("start");
    if (inca_wait(operation, 30.0) != INCA_STATUS_OK)
        return failed("allreduce");
    inca_free(operation);
    for (int32_t i = 0; i < COUNT; i++)
        wrong += tensor[i] != i * (int32_t)(world * (world + 1) / 2);

    /* Blocking: every rank's number, from all to all. */
    int32_t mine = (int32_t)rank * 11;
    if (inca_allgather(group, &mine, parts, 1, INCA_TYPE_I32, 20.0))
        return failed("allgather");
    for (uint32_t other = 0; other < world; other++)
        wrong += parts[other] != (int32_t)other * 11;
    if (inca_broadcast(group, tensor, COUNT, INCA_TYPE_I32, world - 1, 20.0) || inca_barrier(group, 20.0))
        return failed("broadcast");

    /* Wrong use has a status and words. */
    if (inca_allreduce(group, NULL, tensor, 1, INCA_TYPE_I32, INCA_REDUCTION_SUM, 1.0) != INCA_STATUS_INVALID_ARGUMENT)
        wrong++;
    if (inca_allreduce(group, tensor, tensor, 1, 99, INCA_REDUCTION_SUM, 1.0) != INCA_STATUS_INVALID_ARGUMENT)
        wrong++;
    if (inca_last_error()[0] == '\0')
        wrong++;
    if (inca_leave(group) != INCA_STATUS_OK)
        return failed("leave");
    printf("{\"rank\": %u, \"world\": %u, \"wrong\": %u}\n", rank, world, wrong);
    return wrong != 0;
}
