/* The peak rate of multiply-adds of this level, to compare the kernels with. */
#ifndef COTERIE_PEAK_H
#define COTERIE_PEAK_H

#include <stdint.h>

/* Vectors as wide as a register, unlike those of the kernels, and as many as there are registers:
 * each sum waits for its last result, so many sums must be computed at the same time. */
#ifdef __AVX2__
typedef float reg __attribute__((vector_size(32)));
#else
typedef float reg __attribute__((vector_size(16)));
#endif
#ifdef __aarch64__
#define NUM_SUMS 24
#else
#define NUM_SUMS 12
#endif

/* Do `rounds` multiply-adds on each sum and nothing else, and return how many there were, counting
 * every lane. `result` is one half, which the compiler must not know, and becomes the mean of the
 * sums: they all approach 1, because computing with tiny values is slow. */
static int64_t multiply_adds(int64_t rounds, float *result)
{
    reg sum[NUM_SUMS], total = {0};
    const reg half = (reg){0} + *result;
    for (int i = 0; i < NUM_SUMS; i++) sum[i] = (reg){0} + (float)i;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < NUM_SUMS; i++) sum[i] = sum[i] * half + half;
    for (int i = 0; i < NUM_SUMS; i++) total += sum[i];
    *result = total[0] / NUM_SUMS;
    return rounds * NUM_SUMS * (int64_t)(sizeof(reg) / sizeof(float));
}

#endif
