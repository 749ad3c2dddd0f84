/* MPI_Allreduce of floats over a list of sizes, timed and checked. Rank 0 prints one line of JSON.
 *
 * mpicc -O2 -o allreduce allreduce.c && mpirun -n 4 ./allreduce 8:100:10 4194304:3:1    (bytes:iterations:warm-up)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every sum of up to a thousand ranks is exact in a float. */
static float element(long i, int rank)
{
    return (float)(i % 251 + rank);
}

int main(int argc, char **argv)
{
    int rank, world;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (rank == 0)
        printf("{\"world\": %d, \"rows\": [", world);
    for (int arg = 1; arg < argc; arg++) {
        long bytes;
        int iterations, warmup;
        if (sscanf(argv[arg], "%ld:%d:%d", &bytes, &iterations, &warmup) != 3 || bytes < 4 || iterations < 1 || warmup < 0) {
            if (rank == 0)
                fprintf(stderr, "'%s': bytes:iterations:warm-up is valid\n", argv[arg]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        long count = bytes / 4, wrong = 0;
        float *in = malloc(bytes), *out = malloc(bytes);
        double *times = malloc(iterations * sizeof *times);
        if (!in || !out || !times)
            MPI_Abort(MPI_COMM_WORLD, 3);
        for (long i = 0; i < count; i++)
            in[i] = element(i, rank);
        MPI_Barrier(MPI_COMM_WORLD);
        double sum = 0;
        for (int round = -warmup; round < iterations; round++) {
            double start = MPI_Wtime();
            MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            if (round >= 0)
                sum += times[round] = MPI_Wtime() - start;
        }
        for (long i = 0; i < count; i++)
            wrong += out[i] != (float)(world * (i % 251) + world * (world - 1) / 2);
        qsort(times, iterations, sizeof *times, by_value);
        /* The group is as fast as its slowest rank. */
        double mine[3] = {sum / iterations, times[iterations / 2], times[0]}, slowest[3];
        long all_wrong;
        MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%s{\"bytes\": %ld, \"mean\": %.9f, \"median\": %.9f, \"fastest\": %.9f, \"wrong\": %ld}",
                   arg > 1 ? ", " : "", bytes, slowest[0], slowest[1], slowest[2], all_wrong);
        free(in);
        free(out);
        free(times);
    }
    if (rank == 0)
        printf("]}\n");
    MPI_Finalize();
    return 0;
}
