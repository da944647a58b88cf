/* Convolutions on groups of eight samples, fused with ReLU and 2 x 2 max-pooling.
 *
 * Forward, eight samples fill a vector and weights are broadcast: three output channels times four
 * positions (one pooling window, or four neighbours) are twelve accumulators, and the maximum and
 * its place are found in registers. Backward, only the maxima with a live ReLU carry a gradient:
 * sample by sample they are compressed to lists, and each list entry adds one kernel-sized patch.
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
    for (int o = 0; o < channels; o++)
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

/* One pooling window: its maximum, after ReLU, and where it was (an offset into the input). */
INLINE void pooled_window(const int channels, const int train, const float *const at[WINDOW],
                          const Step *s, const float *weights, const float *biases,
                          const int32_t offset[WINDOW], float *out, int32_t *place)
{
    vec sum[WINDOW][CHANNEL_BLOCK];
    window_sums(channels, at, s, weights, biases, sum);
    for (int o = 0; o < channels; o++) {
        vec best = sum[0][o];
        ints where = all_ints(offset[0]);
        for (int p = 1; p < WINDOW; p++) {
            const vec now = sum[p][o];
            const ints better = (ints)(now > best) | (ints)(now != now); /* a NaN stays visible */
            if (train) where = choose_ints(better, all_ints(offset[p]), where);
            best = choose(better, now, best);
        }
        if (train) store_ints(place + o * LANES, where);
        store(out + o * LANES, s->is.relu ? larger(all(0), best) : best);
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
    return y * s->is.pool * s->is.stride[0] * line +
           x * s->is.pool * s->is.stride[1] * s->in.channels;
}

#define FOR_CHANNEL_BLOCKS(CALL)                                             \
    do {                                                                     \
        int64_t o = 0;                                                       \
        for (; o + CHANNEL_BLOCK <= channels; o += CHANNEL_BLOCK) CALL(3);   \
        if (channels - o == 2) CALL(2);                                      \
        if (channels - o == 1) CALL(1);                                      \
    } while (0)

/* A kernel of its own for each block of channels: inlined all at once they would spill. */
#define DEFINE_WINDOWS(CHANNELS)                                                               \
    static __attribute__((noinline)) void pooled_trained_##CHANNELS(                           \
        const float *const at[WINDOW], const Step *s, const float *w, const float *b,          \
        const int32_t offset[WINDOW], float *out, int32_t *place)                              \
    {                                                                                          \
        pooled_window(CHANNELS, 1, at, s, w, b, offset, out, place);                           \
    }                                                                                          \
    static __attribute__((noinline)) void pooled_##CHANNELS(                                   \
        const float *const at[WINDOW], const Step *s, const float *w, const float *b,          \
        const int32_t offset[WINDOW], float *out)                                              \
    {                                                                                          \
        pooled_window(CHANNELS, 0, at, s, w, b, offset, out, NULL);                            \
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
    int32_t *place = s->place;
    for (int64_t y = 0; y < s->out.height; y++)
        for (int64_t x = 0; x < s->out.width; x++, place += channels * LANES) {
            const float *in = s->in.value + input_of(s, y, x) * LANES;
            const float *at[WINDOW];
            for (int p = 0; p < WINDOW; p++) at[p] = in + (int64_t)offset[p] * LANES;
            float *out = s->out.value + place_of(&s->out, y, x) * LANES;
#define CALL_TRAINED(C) \
    pooled_trained_##C(at, s, weights + o * next, biases + o, offset, out + o * LANES, place + o * LANES)
#define CALL_POOLED(C) pooled_##C(at, s, weights + o * next, biases + o, offset, out + o * LANES)
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

static void convolution_forward(const Network *n, const Step *s, int train)
{
    if (s->is.pool == 2) convolution_pooled(n, s, train);
    else convolution_plain(n, s);
}

/* Add gradient x patch for each entry of a list: `rows` x `width` vectors kept in registers.
 * For weights, the patch is fixed and the entries pick inputs; for inputs, the other way round. */
#define MOST_REGISTERS 12
typedef void (*Patch)(float *patch, int64_t patch_line, const float *from, int64_t from_line,
                      const int32_t *offsets, const float *gradients, int64_t count);

INLINE void add_patches(const int rows, const int width, float *patch, int64_t patch_line,
                        const float *from, int64_t from_line, const int32_t *offsets,
                        const float *gradients, int64_t count)
{
    vec sum[MOST_REGISTERS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < width; v++)
            sum[r * width + v] = load(patch + r * patch_line + v * LANES);
    for (int64_t e = 0; e < count; e++) {
        const float *at = from + offsets[e];
        const vec g = all(gradients[e]);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 12
            for (int v = 0; v < width; v++)
                sum[r * width + v] += g * load(at + r * from_line + v * LANES);
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < width; v++)
            store(patch + r * patch_line + v * LANES, sum[r * width + v]);
}

#define DEFINE_PATCH(R, V)                                                                  \
    static void patch_##R##_##V(float *patch, int64_t patch_line, const float *from,        \
                                int64_t from_line, const int32_t *offsets,                  \
                                const float *gradients, int64_t count)                      \
    {                                                                                       \
        add_patches(R, V, patch, patch_line, from, from_line, offsets, gradients, count);   \
    }
#define FOR_ALL_PATCHES(DO)                                                                 \
    DO(1, 1) DO(2, 1) DO(3, 1) DO(4, 1) DO(5, 1) DO(6, 1) DO(7, 1) DO(8, 1) DO(9, 1)        \
    DO(10, 1) DO(11, 1) DO(12, 1) DO(1, 2) DO(2, 2) DO(3, 2) DO(4, 2) DO(5, 2) DO(6, 2)     \
    DO(1, 3) DO(2, 3) DO(3, 3) DO(4, 3) DO(1, 4) DO(2, 4) DO(3, 4) DO(1, 5) DO(2, 5)        \
    DO(1, 6) DO(2, 6) DO(1, 7) DO(1, 8) DO(1, 9) DO(1, 10) DO(1, 11) DO(1, 12)
FOR_ALL_PATCHES(DEFINE_PATCH)
#define NAME_PATCH(R, V) [R][V] = patch_##R##_##V,
static const Patch PATCHES[MOST_REGISTERS + 1][MOST_REGISTERS + 1] = {FOR_ALL_PATCHES(NAME_PATCH)};

/* Cut a kernel of `rows` x `width` vectors into pieces that fit the registers. */
INLINE void add_kernel(int64_t rows, int64_t width, float *patch, int64_t patch_line,
                       const float *from, int64_t from_line, const int32_t *offsets,
                       const float *gradients, int64_t count)
{
    const int64_t wide = width < MOST_REGISTERS ? width : MOST_REGISTERS;
    const int64_t high = MOST_REGISTERS / wide;
    for (int64_t r = 0; r < rows; r += high)
        for (int64_t v = 0; v < width; v += wide) {
            const int64_t rows_now = rows - r < high ? rows - r : high;
            const int64_t width_now = width - v < wide ? width - v : wide;
            PATCHES[rows_now][width_now](patch + r * patch_line + v * LANES, patch_line,
                                         from + r * from_line + v * LANES, from_line, offsets,
                                         gradients, count);
        }
}

/* Output gradients without the border, zero where the ReLU is dead: (position, channel, lane). */
static void mask_gradient(Network *n, const Step *s)
{
    const int64_t count = s->out.width * s->out.channels;
    float *to = n->masked;
    for (int64_t y = 0; y < s->out.height; y++, to += count * LANES) {
        const int64_t at = place_of(&s->out, y, 0) * LANES;
        const float *value = s->out.value + at, *gradient = s->out.gradient + at;
        for (int64_t i = 0; i < count * LANES; i += LANES) {
            const vec g = load(gradient + i);
            /* Not value > 0: the gradient of a NaN is kept, so that divergence is seen. */
            const ints dead = (ints)(load(value + i) <= all(0));
            store(to + i, s->is.relu ? choose(dead, all(0), g) : g);
        }
    }
}

/* dW and db of one sample: for each channel, the list of its positions with a gradient. */
static void convolution_weight_gradient(Network *n, const Step *s, int sample)
{
    const int64_t positions = s->out.height * s->out.width, padded = rounded_up(positions);
    const int64_t in_line = padded_width(&s->in) * s->in.channels;
    const int64_t size = rounded_up(num_values(&s->in));
    const float *x = n->samples + sample * size;
    for (int64_t o = 0; o < s->out.channels; o++) {
        const float *g = n->planar + (o * LANES + sample) * padded;
        const int32_t *place = n->planar_place + (o * LANES + sample) * padded;
        int64_t count = 0;
        for (int64_t p = 0; p < padded; p += LANES) {
            const vec now = load(g + p);
            ints offsets = load_ints(s->bases + p);
            if (s->is.pool == 2) offsets += load_ints(place + p);
            count += compress((ints)(now != all(0)), now, offsets, n->list_values + count,
                              n->list_offsets + count);
        }
        float sum = 0;
        for (int64_t e = 0; e < count; e++) sum += n->list_values[e];
        if (s->is.bias >= 0) n->gradient[s->biases + o] += sum;
        add_kernel(s->is.kernel[0], s->padded_row / LANES,
                   n->gradient + s->weights + o * s->is.kernel[0] * s->padded_row, s->padded_row,
                   x, in_line, n->list_offsets, n->list_values, count);
    }
}

/* dx of one sample: for each position, the lists of channels whose maximum was there. */
static void convolution_input_gradient(Network *n, const Step *s, int sample)
{
    const int64_t channels = s->out.channels, padded = rounded_up(channels);
    const int64_t in_line = padded_width(&s->in) * s->in.channels;
    const int64_t size = rounded_up(num_values(&s->in));
    const int32_t next = (int32_t)(s->is.kernel[0] * s->padded_row);
    const ints first = (ints){0, 1, 2, 3, 4, 5, 6, 7} * next;
    const int num_places = s->is.pool == 2 ? WINDOW : 1;
    int32_t offset[WINDOW];
    window_offsets(s, offset);
    float *dx = n->sample_gradient + sample * size;
    const float *weights = n->packed + s->weights;
    memset(dx, 0, sizeof(float) * (size_t)size);
    for (int64_t position = 0; position < s->out.height * s->out.width; position++) {
        const float *g = n->by_position + (position * LANES + sample) * padded;
        const int32_t *place = n->by_position_place + (position * LANES + sample) * padded;
        for (int d = 0; d < num_places; d++) {
            int64_t count = 0;
            for (int64_t o = 0; o < padded; o += LANES) {
                const vec now = load(g + o);
                ints mask = (ints)(now != all(0));
                if (num_places > 1)
                    mask &= (ints)(load_ints(place + o) == all_ints(offset[d]));
                count += compress(mask, now, first + all_ints((int32_t)o * next),
                                  n->list_values + count, n->list_offsets + count);
            }
            if (count)
                add_kernel(s->is.kernel[0], s->padded_row / LANES,
                           dx + s->bases[position] + offset[d], in_line, weights, s->padded_row,
                           n->list_offsets, n->list_values, count);
        }
    }
}

/* Lay output gradients out by sample, planar and by position, with the places of the maxima. */
static void spread_gradient(Network *n, const Step *s, int with_inputs)
{
    const int64_t channels = s->out.channels, positions = s->out.height * s->out.width;
    const int64_t padded = rounded_up(positions), padded_channels = rounded_up(channels);
    const int pooled = s->is.pool == 2;
    mask_gradient(n, s);
    memset(n->masked + positions * channels * LANES, 0,
           sizeof(float) * (size_t)(LANES * LANES * channels));
    /* Positions outermost: the gradients are read in the order in which they lie. */
    for (int64_t p = 0; p < padded; p += LANES)
        for (int64_t o = 0; o < channels; o++) {
            const int64_t from = (p * channels + o) * LANES, to = o * LANES * padded + p;
            to_samples(n->masked + from, channels, n->planar + to, padded, LANES);
            if (pooled)
                to_samples((const float *)s->place + from, channels,
                           (float *)(n->planar_place + to), padded, LANES);
        }
    if (!with_inputs) return;
    for (int64_t p = 0; p < positions; p++) {
        /* The lanes of the next position fill the last vector up; they are cut off below. */
        to_samples(n->masked + p * channels * LANES, 1, n->by_position + p * LANES * padded_channels,
                   padded_channels, padded_channels);
        for (int b = 0; b < LANES; b++)
            for (int64_t o = channels; o < padded_channels; o++)
                n->by_position[(p * LANES + b) * padded_channels + o] = 0;
        if (pooled)
            to_samples((const float *)s->place + p * channels * LANES, 1,
                       (float *)(n->by_position_place + p * LANES * padded_channels),
                       padded_channels, padded_channels);
    }
}

/* Padding of kernel rows gathered garbage from neighbouring pixels: it stays zero. */
static void clear_padding(Network *n, const Step *s)
{
    for (int64_t r = 0; r < s->is.outputs * s->is.kernel[0]; r++)
        for (int64_t j = s->row; j < s->padded_row; j++)
            n->gradient[s->weights + r * s->padded_row + j] = 0;
}

static void convolution_backward(Network *n, const Step *s, int num_samples, int with_inputs)
{
    const int64_t size = rounded_up(num_values(&s->in));
    spread_gradient(n, s, with_inputs);
    to_samples(s->in.value, 1, n->samples, size, size);
    for (int b = 0; b < num_samples; b++) {
        convolution_weight_gradient(n, s, b);
        if (with_inputs) convolution_input_gradient(n, s, b);
    }
    clear_padding(n, s);
    if (!with_inputs) return;
    for (int b = num_samples; b < LANES; b++)
        memset(n->sample_gradient + b * size, 0, sizeof(float) * (size_t)size);
    const float *rows[LANES];
    for (int b = 0; b < LANES; b++) rows[b] = n->sample_gradient + b * size;
    to_lanes(rows, s->in.gradient, 1, size);
}

#endif
