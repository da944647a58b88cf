/* Linear layers with vectors of 16 floats: two outputs, or two inputs, of eight samples.
 *
 * Weights are read four at a time and spread within registers: reading each one by itself would
 * take longer than the sums.
 */
#ifndef COTERIE_WIDE_LINEAR_H
#define COTERIE_WIDE_LINEAR_H

#include "wide_vectors.h"

#if HAS_WIDE
#define WEIGHTS 4                  /* read at a time */

/* `low` for the first eight lanes, `high` for the others. */
WIDE_INLINE wide both(float low, float high)
{
    return (wide)_mm512_mask_broadcastss_ps(_mm512_set1_ps(low), 0xFF00, _mm_set_ss(high));
}

WIDE_INLINE wide twice(const float *from)
{
    return (wide)_mm512_broadcast_f32x8((__m256)load(from));
}

/* Sums of 2 x `pairs` outputs; see linear_outputs(). */
WIDE_INLINE void wide_outputs(const int pairs, const float *x, const float *weights, int64_t row,
                              int64_t padded_row, const float *biases, int relu, float *y)
{
    wide sum[12];
    int64_t i = 0;
#pragma GCC unroll 12
    for (int p = 0; p < pairs; p++) sum[p] = both(biases[2 * p], biases[2 * p + 1]);
    for (; i + WEIGHTS <= row; i += WEIGHTS) {
        const wide x0 = twice(x + i * LANES), x1 = twice(x + (i + 1) * LANES);
        const wide x2 = twice(x + (i + 2) * LANES), x3 = twice(x + (i + 3) * LANES);
#pragma GCC unroll 12
        for (int p = 0; p < pairs; p++) {
            const float *from = weights + 2 * p * padded_row + i;
            const __m512 low = _mm512_broadcast_f32x4(_mm_loadu_ps(from));
            const __m512 w =
                _mm512_mask_broadcast_f32x4(low, 0xFF00, _mm_loadu_ps(from + padded_row));
            sum[p] += x0 * (wide)_mm512_permute_ps(w, 0x00);
            sum[p] += x1 * (wide)_mm512_permute_ps(w, 0x55);
            sum[p] += x2 * (wide)_mm512_permute_ps(w, 0xAA);
            sum[p] += x3 * (wide)_mm512_permute_ps(w, 0xFF);
        }
    }
    for (; i < row; i++) {
        const wide xi = twice(x + i * LANES);
#pragma GCC unroll 12
        for (int p = 0; p < pairs; p++) {
            const float *from = weights + 2 * p * padded_row + i;
            sum[p] += xi * both(from[0], from[padded_row]);
        }
    }
#pragma GCC unroll 12
    for (int p = 0; p < pairs; p++)
        store_wide(y + 2 * p * LANES, relu ? larger_wide(all_wide(0), sum[p]) : sum[p]);
}

#define DEFINE_WIDE_OUTPUTS(PAIRS)                                                               \
    WIDE void wide_outputs_##PAIRS(const float *x, const float *weights, int64_t row,            \
                                   int64_t padded_row, const float *biases, int relu, float *y)  \
    {                                                                                            \
        wide_outputs(PAIRS, x, weights, row, padded_row, biases, relu, y);                       \
    }
DEFINE_WIDE_OUTPUTS(12)
DEFINE_WIDE_OUTPUTS(6)
DEFINE_WIDE_OUTPUTS(4)
DEFINE_WIDE_OUTPUTS(1)

/* All pairs of outputs; return how many outputs these are. */
static int64_t wide_linear_outputs(int64_t outputs, const float *x, const float *weights,
                                   int64_t row, int64_t padded_row, const float *biases, int relu,
                                   float *y)
{
    int64_t o = 0;
#define CALL_OUTPUTS(PAIRS)                                                                      \
    for (; o + 2 * PAIRS <= outputs; o += 2 * PAIRS)                                             \
    wide_outputs_##PAIRS(x, weights + o * padded_row, row, padded_row, biases + o, relu,         \
                         y + o * LANES)
    CALL_OUTPUTS(12);
    CALL_OUTPUTS(6);
    CALL_OUTPUTS(4);
    CALL_OUTPUTS(1);
#undef CALL_OUTPUTS
    return o;
}

/* linear_inputs() for all inputs in whole fours; return how many these are. */
WIDE_INLINE int64_t wide_inputs(const int width, const int first, float *dx, const float *weights,
                                int64_t row, int64_t padded_row, const float *dy)
{
    const __m512i spread = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i later = _mm512_set_epi32(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2);
    wide d[12];
    int64_t i = 0;
#pragma GCC unroll 12
    for (int o = 0; o < width; o++) d[o] = twice(dy + o * LANES);
    for (; i + WEIGHTS <= row; i += WEIGHTS) {
        float *to = dx + i * LANES;
        wide even[2], odd[2];
        for (int h = 0; h < 2; h++) {
            even[h] = first ? all_wide(0) : load_wide(to + h * WIDE_LANES);
            odd[h] = all_wide(0);
        }
#pragma GCC unroll 12
        for (int o = 0; o < width; o++) {
            const __m512 w = _mm512_broadcast_f32x4(_mm_loadu_ps(weights + o * padded_row + i));
            const wide low = d[o] * (wide)_mm512_permutevar_ps(w, spread);
            const wide high = d[o] * (wide)_mm512_permutevar_ps(w, later);
            if (o & 1) {
                odd[0] += low;
                odd[1] += high;
            } else {
                even[0] += low;
                even[1] += high;
            }
        }
        store_wide(to, even[0] + odd[0]);
        store_wide(to + WIDE_LANES, even[1] + odd[1]);
    }
    return i;
}

#define DEFINE_WIDE_INPUTS(WIDTH, FIRST)                                                         \
    WIDE int64_t wide_inputs_##WIDTH##_##FIRST(float *dx, const float *weights, int64_t row,     \
                                               int64_t padded_row, const float *dy)              \
    {                                                                                            \
        return wide_inputs(WIDTH, FIRST, dx, weights, row, padded_row, dy);                      \
    }
DEFINE_WIDE_INPUTS(12, 1)
DEFINE_WIDE_INPUTS(12, 0)
DEFINE_WIDE_INPUTS(1, 1)
DEFINE_WIDE_INPUTS(2, 0)
DEFINE_WIDE_INPUTS(1, 0)
#endif

#endif
