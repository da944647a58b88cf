/* Convolutions forward, on groups of eight samples, fused with ReLU and 2 x 2 max-pooling.
 *
 * The four positions of a pooling window are computed together, and the maximum and its place in
 * the window are found in registers.
 */
#ifndef COTERIE_CONVOLUTION_H
#define COTERIE_CONVOLUTION_H

#include "kernel_sums.h"
#include "optimizer.h"

/* Offsets into the input, in values, of the four places of a pooling window. */
INLINE void window_offsets(const Step *s, int32_t offset[WINDOW])
{
    const int32_t right = (int32_t)(s->in.channels * s->is.stride[1]);
    const int32_t down = (int32_t)(padded_width(&s->in) * s->in.channels * s->is.stride[0]);
    offset[0] = 0;
    offset[1] = right;
    offset[2] = down;
    offset[3] = down + right;
}

/* Where the input of an output position begins, in values. */
INLINE int64_t input_of(const Step *s, int64_t y, int64_t x)
{
    const int64_t line = padded_width(&s->in) * s->in.channels;
    return s->from + y * s->is.pool * s->is.stride[0] * line +
           x * s->is.pool * s->is.stride[1] * s->in.channels;
}

static Kernels kernels_of(const Network *n, const Step *s)
{
    return (Kernels){.weights = n->packed + s->weights,
                     .biases = n->packed + s->biases,
                     .channels = s->out.channels,
                     .rows = s->is.kernel[0],
                     .row = s->row,
                     .next_channel = s->is.kernel[0] * s->padded_row,
                     .next_row = s->padded_row,
                     .line = padded_width(&s->in) * s->in.channels * LANES,
                     .relu = s->is.relu};
}

/* Keep the maximum of a pooling window, after ReLU, and which of the four places it was at. */
INLINE void store_maximum(const int train, int relu, const vec sum[WINDOW], float *out,
                          uint8_t *place)
{
    vec best = sum[0];
    ints where = all_ints(0);
#pragma GCC unroll 3
    for (int p = 1; p < WINDOW; p++) {
        const vec now = sum[p];
        const ints better = (ints)(now > best) | (ints)(now != now); /* a NaN stays visible */
        if (train) where = choose_ints(better, all_ints(p), where);
        best = choose(better, now, best);
    }
    if (train) store_bytes(place, where);
    store(out, relu ? larger(all(0), best) : best);
}

INLINE void pooled_sums(const int outputs, const int train, const Kernels *k, int64_t o,
                        const float *const at[WINDOW], float *out, uint8_t *place)
{
    vec sum[12];
    kernel_sums(outputs, WINDOW, k, o, at, sum);
#pragma GCC unroll 3
    for (int c = 0; c < outputs; c++) {
        const vec four[WINDOW] = {sum[c], sum[outputs + c], sum[2 * outputs + c],
                                  sum[3 * outputs + c]};
        store_maximum(train, k->relu, four, out + (o + c) * LANES, place + (o + c) * LANES);
    }
}

/* A separate function for each block of channels: inlined together they would spill registers. */
#define DEFINE_POOLED(OUTPUTS, TRAIN)                                                            \
    static __attribute__((noinline)) void pooled_##OUTPUTS##_##TRAIN(                            \
        const Kernels *k, int64_t o, const float *const at[WINDOW], float *out, uint8_t *place)  \
    {                                                                                            \
        pooled_sums(OUTPUTS, TRAIN, k, o, at, out, place);                                       \
    }
#define DEFINE_POOLED_BOTH(OUTPUTS) DEFINE_POOLED(OUTPUTS, 0) DEFINE_POOLED(OUTPUTS, 1)
DEFINE_POOLED_BOTH(3)
DEFINE_POOLED_BOTH(2)
DEFINE_POOLED_BOTH(1)

#if HAS_WIDE
/* store_maximum() for two channels or windows: each vector holds the sums of both at one place.
 * The results go to the lower halves and the upper halves. */
WIDE_INLINE wide wide_maximum(const int train, int relu, const wide sum[WINDOW], __m128i *places)
{
    __m512 best = (__m512)sum[0];
    __m512i where = _mm512_setzero_si512();
#pragma GCC unroll 3
    for (int p = 1; p < WINDOW; p++) {
        const __m512 now = (__m512)sum[p];
        const __mmask16 better = _mm512_cmp_ps_mask(now, best, _CMP_GT_OQ) |
                                 _mm512_cmp_ps_mask(now, now, _CMP_UNORD_Q);
        if (train) where = _mm512_mask_set1_epi32(where, better, p);
        best = _mm512_mask_mov_ps(best, better, now);
    }
    if (train) *places = _mm512_cvtepi32_epi8(where);
    return relu ? larger_wide(all_wide(0), (wide)best) : (wide)best;
}

/* From two channels' sums at (first, second) and (third, fourth) place to the four places'. */
WIDE_INLINE void pair_channels(const wide one[2], const wide other[2], wide four[WINDOW])
{
    for (int i = 0; i < 2; i++) {
        const __m512 a = (__m512)one[i], b = (__m512)other[i];
        four[2 * i] = (wide)_mm512_shuffle_f32x4(a, b, 0x44);
        four[2 * i + 1] = (wide)_mm512_shuffle_f32x4(a, b, 0xEE);
    }
}

WIDE_INLINE void wide_pooled_sums(const int outputs, const int train, const Kernels *k, int64_t o,
                                  const float *const at[WINDOW], float *out, uint8_t *place)
{
    wide sum[2][12];
    wide_sums(outputs, k, o, at, sum);
    int c = 0;
#pragma GCC unroll 4
    for (; c + 2 <= outputs; c += 2) {
        const wide one[2] = {sum[0][c], sum[1][c]}, other[2] = {sum[0][c + 1], sum[1][c + 1]};
        wide four[WINDOW];
        __m128i places;
        pair_channels(one, other, four);
        store_wide(out + (o + c) * LANES, wide_maximum(train, k->relu, four, &places));
        if (train) _mm_storeu_si128((__m128i *)(place + (o + c) * LANES), places);
    }
    if (c == outputs) return;
    const vec four[WINDOW] = {low_half(sum[0][c]), high_half(sum[0][c]), low_half(sum[1][c]),
                              high_half(sum[1][c])};
    store_maximum(train, k->relu, four, out + (o + c) * LANES, place + (o + c) * LANES);
}

#define DEFINE_WIDE_POOLED(OUTPUTS, TRAIN)                                                       \
    WIDE void wide_pooled_##OUTPUTS##_##TRAIN(const Kernels *k, int64_t o,                       \
                                              const float *const at[WINDOW], float *out,         \
                                              uint8_t *place)                                    \
    {                                                                                            \
        wide_pooled_sums(OUTPUTS, TRAIN, k, o, at, out, place);                                  \
    }
#define DEFINE_WIDE_POOLED_BOTH(OUTPUTS)                                                         \
    DEFINE_WIDE_POOLED(OUTPUTS, 0) DEFINE_WIDE_POOLED(OUTPUTS, 1)
DEFINE_WIDE_POOLED_BOTH(8)
DEFINE_WIDE_POOLED_BOTH(6)
DEFINE_WIDE_POOLED_BOTH(4)
DEFINE_WIDE_POOLED_BOTH(1)

INLINE void wide_pooled_channels(const int train, const Kernels *k, const float *const at[WINDOW],
                                 float *out, uint8_t *place)
{
    int64_t o = 0;
#define CALL_POOLED(OUTPUTS)                                                                     \
    do {                                                                                         \
        if (train) wide_pooled_##OUTPUTS##_1(k, o, at, out, place);                              \
        else wide_pooled_##OUTPUTS##_0(k, o, at, out, NULL);                                     \
    } while (0)
    for (; o + 8 <= k->channels; o += 8) CALL_POOLED(8);
    for (; o + 6 <= k->channels; o += 6) CALL_POOLED(6);
    for (; o + 4 <= k->channels; o += 4) CALL_POOLED(4);
    for (; o < k->channels; o++) CALL_POOLED(1);
#undef CALL_POOLED
}
#endif

INLINE void pooled_channels(const int train, const Kernels *k, const float *const at[WINDOW],
                            float *out, uint8_t *place)
{
    int64_t o = 0;
#if HAS_WIDE
    if (has_wide) {
        wide_pooled_channels(train, k, at, out, place);
        return;
    }
#endif
#define CALL_POOLED(OUTPUTS)                                                                     \
    do {                                                                                         \
        if (train) pooled_##OUTPUTS##_1(k, o, at, out, place);                                   \
        else pooled_##OUTPUTS##_0(k, o, at, out, NULL);                                          \
    } while (0)
    for (; o + 3 <= k->channels; o += 3) CALL_POOLED(3);
    if (k->channels - o == 2) CALL_POOLED(2);
    if (k->channels - o == 1) CALL_POOLED(1);
#undef CALL_POOLED
}

static void convolution_pooled(const Network *n, const Step *s, int train)
{
    const Kernels k = kernels_of(n, s);
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    uint8_t *place = s->window;
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x++, place += k.channels * LANES) {
            const float *in = s->in.value + input_of(s, y, x) * LANES;
            const float *at[WINDOW];
            for (int p = 0; p < WINDOW; p++) at[p] = in + (int64_t)offset[p] * LANES;
            float *out = s->out.value + place_of(&s->out, y, x) * LANES;
            if (train) pooled_channels(1, &k, at, out, place);
            else pooled_channels(0, &k, at, out, NULL);
        }
}

static void convolution_plain(const Network *n, const Step *s)
{
    const Kernels k = kernels_of(n, s);
    const int64_t width = s->out.width, positions = s->out.height * width;
    for (int64_t first = 0; first < positions; first += WINDOW) {
        const int64_t left = positions - first, count = left < WINDOW ? left : WINDOW;
        const float *at[WINDOW];
        float *out[WINDOW];
        for (int64_t p = 0; p < count; p++) {
            const int64_t y = (first + p) / width, x = (first + p) % width;
            at[p] = s->in.value + input_of(s, y, x) * LANES;
            out[p] = s->out.value + place_of(&s->out, y, x) * LANES;
        }
        channels_at(&k, at, out, count);
    }
}

#endif
