/* Convolutions of 3 x 3 with 2 x 2 max-pooling, by Winograd's minimal filtering F(2 x 2, 3 x 3).
 *
 * The four outputs of a pooling window depend on a tile of 4 x 4 inputs. Tile and kernel are
 * transformed to 4 x 4 values each, whose products, summed over the channels, are transformed back:
 * 16 multiplications instead of 36. It is faster where the sums are longer than the
 * transformations. As everywhere, eight samples fill a vector.
 */
#ifndef COTERIE_WINOGRAD_H
#define COTERIE_WINOGRAD_H

#include "convolution.h"

#define TILE 16                    /* values of a transformed tile */
#define FEWEST_CHANNELS 8

/* Whether a pooled convolution is computed by tiles. */
INLINE int is_winograd(const Step *s)
{
    const Operation *o = &s->is;
    return o->kind == CONVOLUTION && o->pool == 2 && o->kernel[0] == 3 && o->kernel[1] == 3 &&
           o->stride[0] == 1 && o->stride[1] == 1 && s->in.channels >= FEWEST_CHANNELS &&
           s->out.channels >= FEWEST_CHANNELS;
}

/* One side of G g Gᵀ: three values become four. */
INLINE void kernel_side(const vec g[3], vec to[4])
{
    const vec half = all(0.5f), outer = half * (g[0] + g[2]), inner = half * g[1];
    to[0] = g[0];
    to[1] = outer + inner;
    to[2] = outer - inner;
    to[3] = g[2];
}

/* One side of Bᵀ d B. */
INLINE void tile_side(const vec d[4], vec to[4])
{
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
}

/* One side of Aᵀ m A: four values become two. */
INLINE void output_side(const vec m[4], vec to[2])
{
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
}

/* Transform a layer's weights, eight input channels at a time: (16, output, input channel). */
static void transform_kernels(const Network *n, const Step *s)
{
    const int64_t channels = s->in.channels, padded = rounded_up(channels);
    const int64_t apart = s->out.channels * padded;
    for (int64_t o = 0; o < s->out.channels; o++)
        for (int64_t c = 0; c < channels; c += LANES) {
            const float *w = n->packed + s->weights + o * 3 * s->padded_row + c;
            vec columns[3][4], g[3], rows[4], side[3];
            for (int x = 0; x < 3; x++) {
                for (int y = 0; y < 3; y++) g[y] = load(w + y * s->padded_row + x * channels);
                kernel_side(g, columns[x]);
            }
            for (int y = 0; y < 4; y++) {
                for (int x = 0; x < 3; x++) side[x] = columns[x][y];
                kernel_side(side, rows);
                for (int x = 0; x < 4; x++)
                    store(s->kernels + (4 * y + x) * apart + o * padded + c, rows[x]);
            }
        }
}

/* Transform the inputs of four windows: (16, channel, window, lane). */
static void transform_tiles(const Network *n, const Step *s, const float *const at[WINDOW])
{
    const int64_t channels = s->in.channels, line = padded_width(&s->in) * channels * LANES;
    const int64_t apart = channels * WINDOW * LANES;
    for (int t = 0; t < WINDOW; t++)
        for (int64_t c = 0; c < channels; c++) {
            const float *from = at[t] + c * LANES;
            float *to = n->tiles + (c * WINDOW + t) * LANES;
            vec columns[4][4], d[4], side[4];
#pragma GCC unroll 4
            for (int x = 0; x < 4; x++) {
#pragma GCC unroll 4
                for (int y = 0; y < 4; y++) d[y] = load(from + y * line + x * channels * LANES);
                tile_side(d, columns[x]);
            }
#pragma GCC unroll 4
            for (int y = 0; y < 4; y++) {
                for (int x = 0; x < 4; x++) d[x] = columns[x][y];
                tile_side(d, side);
#pragma GCC unroll 4
                for (int x = 0; x < 4; x++) store(to + (4 * y + x) * apart, side[x]);
            }
        }
}

/* Sums over the input channels of `outputs` output channels at four windows. */
INLINE void sum_products(const int outputs, const float *tiles, const float *kernels,
                         int64_t channels, float *to)
{
    const int64_t padded = rounded_up(channels);
    vec sum[WINDOW][CHANNEL_BLOCK];
#pragma GCC unroll 3
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW; t++) sum[t][o] = all(0);
#pragma GCC unroll 2
    for (int64_t c = 0; c < channels; c++) {
        vec weight[CHANNEL_BLOCK];
        for (int o = 0; o < outputs; o++) weight[o] = all(kernels[o * padded + c]);
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW; t++) {
            const vec x = load(tiles + (c * WINDOW + t) * LANES);
            for (int o = 0; o < outputs; o++) sum[t][o] += x * weight[o];
        }
    }
#pragma GCC unroll 3
    for (int o = 0; o < outputs; o++)
#pragma GCC unroll 4
        for (int t = 0; t < WINDOW; t++) store(to + (o * WINDOW + t) * LANES, sum[t][o]);
}

#define DEFINE_PRODUCTS(OUTPUTS)                                                                \
    static __attribute__((noinline)) void products_##OUTPUTS(                                   \
        const float *tiles, const float *kernels, int64_t channels, float *to)                  \
    {                                                                                           \
        sum_products(OUTPUTS, tiles, kernels, channels, to);                                    \
    }
DEFINE_PRODUCTS(1)
DEFINE_PRODUCTS(2)
DEFINE_PRODUCTS(3)

/* All products of four windows: (16, output channel, window, lane). */
static void all_products(const Network *n, const Step *s)
{
    const int64_t channels = s->out.channels, padded = rounded_up(s->in.channels);
    for (int64_t i = 0; i < TILE; i++) {
        const float *tiles = n->tiles + i * s->in.channels * WINDOW * LANES;
        const float *kernels = s->kernels + i * channels * padded;
        float *to = n->products + i * channels * WINDOW * LANES;
#define CALL_PRODUCTS(C) \
    products_##C(tiles, kernels + o * padded, s->in.channels, to + o * WINDOW * LANES)
        FOR_CHANNEL_BLOCKS(CALL_PRODUCTS);
    }
}

/* The outputs of one window and channel, transformed back, and of them the maximum. */
INLINE void window_of_products(const int train, const Network *n, const Step *s, int64_t o, int t,
                               float *out, uint8_t *place)
{
    const int64_t apart = s->out.channels * WINDOW * LANES;
    const float *from = n->products + (o * WINDOW + t) * LANES;
    const vec bias = all(n->packed[s->biases + o]);
    vec m[4], columns[4][2], side[4], row[2], sum[WINDOW];
#pragma GCC unroll 4
    for (int x = 0; x < 4; x++) {
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++) m[y] = load(from + (4 * y + x) * apart);
        output_side(m, columns[x]);
    }
#pragma GCC unroll 2
    for (int y = 0; y < 2; y++) {
        for (int x = 0; x < 4; x++) side[x] = columns[x][y];
        output_side(side, row);
        sum[2 * y] = row[0] + bias;
        sum[2 * y + 1] = row[1] + bias;
    }
    store_maximum(train, s, sum, out, place);
}

INLINE void winograd_windows(const int train, const Network *n, const Step *s)
{
    const int64_t channels = s->out.channels, width = s->out.width;
    const int64_t positions = s->out.height * width;
    for (int64_t first = 0; first < positions; first += WINDOW) {
        const int64_t left = positions - first, count = left < WINDOW ? left : WINDOW;
        const float *at[WINDOW];
        for (int t = 0; t < WINDOW; t++) {
            /* Windows beyond the last one repeat the first; nothing of them is kept. */
            const int64_t p = t < count ? first + t : first;
            at[t] = s->in.value + input_of(s, p / width, p % width) * LANES;
        }
        transform_tiles(n, s, at);
        all_products(n, s);
        for (int t = 0; t < count; t++) {
            const int64_t p = first + t, to = place_of(&s->out, p / width, p % width);
            for (int64_t o = 0; o < channels; o++)
                window_of_products(train, n, s, o, t, s->out.value + (to + o) * LANES,
                                   s->window + (p * channels + o) * LANES);
        }
    }
}

static void winograd_forward(const Network *n, const Step *s, int train)
{
    if (train) winograd_windows(1, n, s);
    else winograd_windows(0, n, s);
}

#endif
