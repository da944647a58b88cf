/* Convolutions forward, on groups of eight samples, fused with ReLU and 2 x 2 max-pooling.
 *
 * Eight samples fill a vector and weights are broadcast: three output channels times four positions
 * (one pooling window, or four neighbours) are twelve accumulators, and the maximum and its place
 * in the window are found in registers.
 */
#ifndef COTERIE_CONVOLUTION_H
#define COTERIE_CONVOLUTION_H

#include "optimizer.h"

#define CHANNEL_BLOCK 3
#define WINDOW 4

/* Sums of `channels` output channels at four positions; `row` = kernel width x input channels. */
INLINE void window_sums(const int channels, const float *const at[WINDOW], const Step *s,
                        const float *weights, const float *biases,
                        vec sum[WINDOW][CHANNEL_BLOCK])
{
    const int64_t line = padded_width(&s->in) * s->in.channels * LANES;
    const int64_t next_channel = s->is.kernel[0] * s->padded_row, row = s->row;
#pragma GCC unroll 3
    for (int o = 0; o < channels; o++)
#pragma GCC unroll 4
        for (int p = 0; p < WINDOW; p++) sum[p][o] = all(biases[o]);
    for (int64_t y = 0; y < s->is.kernel[0]; y++) {
        const float *a0 = at[0] + y * line, *a1 = at[1] + y * line;
        const float *a2 = at[2] + y * line, *a3 = at[3] + y * line;
        const float *w = weights + y * s->padded_row;
#pragma GCC unroll 2
        for (int64_t j = 0; j < row; j++) {
            vec weight[CHANNEL_BLOCK];
            for (int o = 0; o < channels; o++) weight[o] = all(w[o * next_channel + j]);
            vec x = load(a0 + j * LANES);
            for (int o = 0; o < channels; o++) sum[0][o] += x * weight[o];
            x = load(a1 + j * LANES);
            for (int o = 0; o < channels; o++) sum[1][o] += x * weight[o];
            x = load(a2 + j * LANES);
            for (int o = 0; o < channels; o++) sum[2][o] += x * weight[o];
            x = load(a3 + j * LANES);
            for (int o = 0; o < channels; o++) sum[3][o] += x * weight[o];
        }
    }
}

/* Keep the maximum of a pooling window, after ReLU, and which of the four places it was at. */
INLINE void store_maximum(const int train, const Step *s, const vec sum[WINDOW], float *out,
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
    store(out, s->is.relu ? larger(all(0), best) : best);
}

INLINE void pooled_window(const int channels, const int train, const float *const at[WINDOW],
                          const Step *s, const float *weights, const float *biases, float *out,
                          uint8_t *place)
{
    vec sum[WINDOW][CHANNEL_BLOCK];
    window_sums(channels, at, s, weights, biases, sum);
#pragma GCC unroll 3
    for (int o = 0; o < channels; o++) {
        const vec four[WINDOW] = {sum[0][o], sum[1][o], sum[2][o], sum[3][o]};
        store_maximum(train, s, four, out + o * LANES, place + o * LANES);
    }
}

INLINE void plain_window(const int channels, const float *const at[WINDOW], const Step *s,
                         const float *weights, const float *biases, int64_t num_positions,
                         float *out)
{
    vec sum[WINDOW][CHANNEL_BLOCK];
    window_sums(channels, at, s, weights, biases, sum);
    for (int64_t p = 0; p < num_positions; p++)
        for (int o = 0; o < channels; o++)
            store(out + (p * s->out.channels + o) * LANES,
                  s->is.relu ? larger(all(0), sum[p][o]) : sum[p][o]);
}

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

#define FOR_CHANNEL_BLOCKS(CALL)                                             \
    do {                                                                     \
        int64_t o = 0;                                                       \
        for (; o + CHANNEL_BLOCK <= channels; o += CHANNEL_BLOCK) CALL(3);   \
        if (channels - o == 2) CALL(2);                                      \
        if (channels - o == 1) CALL(1);                                      \
    } while (0)

/* A separate kernel for each block of channels: inlined together they would spill registers. */
#define DEFINE_WINDOWS(CHANNELS)                                                               \
    static __attribute__((noinline)) void pooled_trained_##CHANNELS(                           \
        const float *const at[WINDOW], const Step *s, const float *w, const float *b,          \
        float *out, uint8_t *place)                                                            \
    {                                                                                          \
        pooled_window(CHANNELS, 1, at, s, w, b, out, place);                                   \
    }                                                                                          \
    static __attribute__((noinline)) void pooled_##CHANNELS(                                   \
        const float *const at[WINDOW], const Step *s, const float *w, const float *b,          \
        float *out)                                                                            \
    {                                                                                          \
        pooled_window(CHANNELS, 0, at, s, w, b, out, NULL);                                    \
    }                                                                                          \
    static __attribute__((noinline)) void plain_##CHANNELS(                                    \
        const float *const at[WINDOW], const Step *s, const float *w, const float *b,          \
        int64_t count, float *out)                                                             \
    {                                                                                          \
        plain_window(CHANNELS, at, s, w, b, count, out);                                       \
    }
DEFINE_WINDOWS(1)
DEFINE_WINDOWS(2)
DEFINE_WINDOWS(3)

static void convolution_pooled(const Network *n, const Step *s, int train)
{
    const int64_t channels = s->out.channels, next = s->is.kernel[0] * s->padded_row;
    const float *weights = n->packed + s->weights, *biases = n->packed + s->biases;
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    uint8_t *place = s->window;
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x++, place += channels * LANES) {
            const float *in = s->in.value + input_of(s, y, x) * LANES;
            const float *at[WINDOW];
            for (int p = 0; p < WINDOW; p++) at[p] = in + (int64_t)offset[p] * LANES;
            float *out = s->out.value + place_of(&s->out, y, x) * LANES;
#define CALL_TRAINED(C) \
    pooled_trained_##C(at, s, weights + o * next, biases + o, out + o * LANES, place + o * LANES)
#define CALL_POOLED(C) pooled_##C(at, s, weights + o * next, biases + o, out + o * LANES)
            if (train) FOR_CHANNEL_BLOCKS(CALL_TRAINED);
            else FOR_CHANNEL_BLOCKS(CALL_POOLED);
        }
}

static void convolution_plain(const Network *n, const Step *s)
{
    const int64_t channels = s->out.channels, next = s->is.kernel[0] * s->padded_row;
    const int64_t right = s->in.channels * s->is.stride[1] * LANES;
    const float *weights = n->packed + s->weights, *biases = n->packed + s->biases;
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x += WINDOW) {
            const float *in = s->in.value + input_of(s, y, x) * LANES;
            const int64_t left = s->out.width - x, count = left < WINDOW ? left : WINDOW;
            const float *at[WINDOW];
            for (int p = 0; p < WINDOW; p++) at[p] = p < count ? in + p * right : in;
            float *out = s->out.value + place_of(&s->out, y, x) * LANES;
#define CALL_PLAIN(C) plain_##C(at, s, weights + o * next, biases + o, count, out + o * LANES)
            FOR_CHANNEL_BLOCKS(CALL_PLAIN);
        }
}

#endif
