/* Sums of kernels times inputs, for all channels at up to four positions.
 *
 * Eight samples fill a vector and weights are broadcast: three output channels times four positions
 * are twelve accumulators. Where there are vectors of 16 floats, each holds two positions.
 */
#ifndef COTERIE_KERNEL_SUMS_H
#define COTERIE_KERNEL_SUMS_H

#include "network.h"
#include "wide_vectors.h"

#define WINDOW 4

/* Kernels for all output channels, and the lines of the values they are applied to. */
typedef struct {
    const float *weights, *biases; /* biases may be NULL */
    int64_t channels, rows, row;   /* output channels; lines of a kernel, and values in one */
    int64_t next_channel, next_row;
    int64_t line;                  /* floats from one line of the input to the next */
    int relu;
} Kernels;

/* Sums of `outputs` channels from `o` on: (position, channel). */
INLINE void kernel_sums(const int outputs, const int positions, const Kernels *k, int64_t o,
                        const float *const *at, vec sum[12])
{
    const float *weights = k->weights + o * k->next_channel;
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++)
#pragma GCC unroll 4
        for (int p = 0; p < positions; p++)
            sum[p * outputs + c] = all(k->biases ? k->biases[o + c] : 0);
    for (int64_t y = 0; y < k->rows; y++) {
        const float *w = weights + y * k->next_row;
        const float *from[4];
        for (int p = 0; p < positions; p++) from[p] = at[p] + y * k->line;
        for (int64_t j = 0; j < k->row; j++) {
            vec x[4];
#pragma GCC unroll 4
            for (int p = 0; p < positions; p++) x[p] = load(from[p] + j * LANES);
#pragma GCC unroll 12
            for (int c = 0; c < outputs; c++) {
                const vec weight = all(w[c * k->next_channel + j]);
#pragma GCC unroll 4
                for (int p = 0; p < positions; p++) sum[p * outputs + c] += x[p] * weight;
            }
        }
    }
}

INLINE void store_sums(const int outputs, const int positions, const Kernels *k, int64_t o,
                       const float *const *at, float *const *out)
{
    vec sum[12];
    kernel_sums(outputs, positions, k, o, at, sum);
#pragma GCC unroll 4
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 12
        for (int c = 0; c < outputs; c++) {
            const vec value = sum[p * outputs + c];
            store(out[p] + (o + c) * LANES, k->relu ? larger(all(0), value) : value);
        }
}

/* A separate function for each block: inlined together they would spill registers. */
#define DEFINE_SUMS(OUTPUTS, POSITIONS)                                                          \
    static __attribute__((noinline)) void sums_##OUTPUTS##_##POSITIONS(                          \
        const Kernels *k, int64_t o, const float *const *at, float *const *out)                  \
    {                                                                                            \
        store_sums(OUTPUTS, POSITIONS, k, o, at, out);                                           \
    }
DEFINE_SUMS(3, 4)
DEFINE_SUMS(2, 4)
DEFINE_SUMS(1, 4)
DEFINE_SUMS(12, 1)
DEFINE_SUMS(4, 1)
DEFINE_SUMS(1, 1)

#if HAS_WIDE
/* kernel_sums() for four positions, two of them in each vector. */
WIDE_INLINE void wide_sums(const int outputs, const Kernels *k, int64_t o, const float *const *at,
                           wide sum[2][12])
{
    const float *weights = k->weights + o * k->next_channel;
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++)
        sum[0][c] = sum[1][c] = all_wide(k->biases ? k->biases[o + c] : 0);
    for (int64_t y = 0; y < k->rows; y++) {
        const float *w = weights + y * k->next_row;
        const float *a0 = at[0] + y * k->line, *a1 = at[1] + y * k->line;
        const float *a2 = at[2] + y * k->line, *a3 = at[3] + y * k->line;
        for (int64_t j = 0; j < k->row; j++) {
            const wide x = join(a0 + j * LANES, a1 + j * LANES);
            const wide z = join(a2 + j * LANES, a3 + j * LANES);
#pragma GCC unroll 12
            for (int c = 0; c < outputs; c++) {
                const wide weight = all_wide(w[c * k->next_channel + j]);
                sum[0][c] += x * weight;
                sum[1][c] += z * weight;
            }
        }
    }
}

WIDE_INLINE void store_wide_sums(const int outputs, const Kernels *k, int64_t o,
                                 const float *const *at, float *const *out)
{
    wide sum[2][12];
    wide_sums(outputs, k, o, at, sum);
#pragma GCC unroll 12
    for (int c = 0; c < outputs; c++) {
        if (k->relu)
            for (int p = 0; p < 2; p++) sum[p][c] = larger_wide(all_wide(0), sum[p][c]);
        part(sum[0][c], out[0] + (o + c) * LANES, out[1] + (o + c) * LANES);
        part(sum[1][c], out[2] + (o + c) * LANES, out[3] + (o + c) * LANES);
    }
}

#define DEFINE_WIDE_SUMS(OUTPUTS)                                                                \
    WIDE void sums_of_##OUTPUTS(const Kernels *k, int64_t o, const float *const *at,           \
                                  float *const *out)                                             \
    {                                                                                            \
        store_wide_sums(OUTPUTS, k, o, at, out);                                                  \
    }
DEFINE_WIDE_SUMS(12)
DEFINE_WIDE_SUMS(8)
DEFINE_WIDE_SUMS(4)
DEFINE_WIDE_SUMS(1)

static int64_t wide_channels(const Kernels *k, const float *const *at, float *const *out)
{
    int64_t o = 0;
    /* Blocks of 8 rather than 12 and a small rest. */
    const int64_t block = k->channels % 12 > k->channels % 8 ? 8 : 12;
    if (block == 12)
        for (; o + 12 <= k->channels; o += 12) sums_of_12(k, o, at, out);
    for (; o + 8 <= k->channels; o += 8) sums_of_8(k, o, at, out);
    for (; o + 4 <= k->channels; o += 4) sums_of_4(k, o, at, out);
    for (; o < k->channels; o++) sums_of_1(k, o, at, out);
    return o;
}
#endif

/* All channels at up to four positions. */
static void channels_at(const Kernels *k, const float **at, float **out, int64_t count)
{
    int64_t o = 0;
    if (count == 1) {
        for (; o + 12 <= k->channels; o += 12) sums_12_1(k, o, at, out);
        for (; o + 4 <= k->channels; o += 4) sums_4_1(k, o, at, out);
        for (; o < k->channels; o++) sums_1_1(k, o, at, out);
        return;
    }
    /* What is computed beyond the last position is written first, and overwritten by the first. */
    for (int64_t p = count; p < WINDOW; p++) {
        at[p] = at[0];
        out[p] = out[0];
    }
#if HAS_WIDE
    if (has_wide) o = wide_channels(k, at, out);
#endif
    for (; o + 3 <= k->channels; o += 3) sums_3_4(k, o, at, out);
    if (k->channels - o == 2) sums_2_4(k, o, at, out);
    if (k->channels - o == 1) sums_1_4(k, o, at, out);
}

#endif
