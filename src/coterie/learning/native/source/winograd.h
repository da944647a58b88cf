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

typedef struct {
    int64_t inputs, outputs;       /* channels */
    int64_t line, out_line;        /* floats from one line to the next, of inputs and of results */
    const float *kernels;          /* transformed: (16, output, input in whole vectors) */
    const float *biases;           /* NULL: none */
    float *tiles, *products;
    int relu, is_pooled;
} Tiling;

/* From one of the 16 values of tiles to the next: not a power of two, or all would share the same
 * places of a cache. */
INLINE int64_t apart_of(int64_t count) { return count + WIDE_LANES; }

#define WINDOWS 1
#define TILE_OUTPUTS 3
#define GATHER(at, t, offset) load((at)[t] + (offset))
#define PUT(value, out, t, offset) store((out)[t] + (offset), value)
#define PUT_MAXIMUM(train, relu, four, out, place, t, offset) \
    store_maximum(train, relu, four, (out)[t] + (offset), train ? (place)[t] + (offset) : NULL)
#include "use_narrow.h"
#include "tile_steps.h"
#include "end_use.h"
#undef WINDOWS
#undef TILE_OUTPUTS
#undef GATHER
#undef PUT
#undef PUT_MAXIMUM

#if HAS_WIDE
WIDE_INLINE void put_two_maxima(const int train, int relu, const wide four[WINDOW],
                                float *const *out, uint8_t *const *place, int64_t offset)
{
    __m128i places;
    const wide best = wide_maximum(train, relu, four, &places);
    part(best, out[0] + offset, out[1] + offset);
    if (!train) return;
    _mm_storel_epi64((__m128i *)(place[0] + offset), places);
    _mm_storel_epi64((__m128i *)(place[1] + offset), _mm_unpackhi_epi64(places, places));
}

#define WINDOWS 2
#define TILE_OUTPUTS 8
#define GATHER(at, t, offset) join((at)[t] + (offset), (at)[(t) + 1] + (offset))
#define PUT(value, out, t, offset) part(value, (out)[t] + (offset), (out)[(t) + 1] + (offset))
#define PUT_MAXIMUM(train, relu, four, out, place, t, offset) \
    put_two_maxima(train, relu, four, (out) + (t), train ? (place) + (t) : NULL, offset)
#include "use_wide.h"
#include "tile_steps.h"
#include "end_use.h"
#endif

/* Transform a layer's weights, eight input channels at a time: (16, output, input channel). */
static void transform_kernels(const Network *n, const Step *s)
{
    const int64_t channels = s->in.channels, padded = rounded_up(channels);
    const int64_t apart = apart_of(s->out.channels * padded);
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

/* Four windows with their inputs at `at`: all values to `out`; or, if pooled, the maxima and, in
 * training, their places. */
static void tiled_windows(const Tiling *k, const float *const *at, float *const *out,
                          uint8_t *const *place)
{
#if HAS_WIDE
    if (has_wide) {
        tiled_windows_wide(k, at, out, place);
        return;
    }
#endif
    tiled_windows_narrow(k, at, out, place);
}

/* Compute `down` x `across` windows: the inputs of the first one begin at `first`, its results at
 * `results`, and, in training with pooling, the places of its maxima at `places`. */
static void tiled_image(const Tiling *k, const float *first, float *results, uint8_t *places,
                        int64_t down, int64_t across)
{
    const int64_t windows = down * across, side = k->is_pooled ? 1 : 2;
    for (int64_t start = 0; start < windows; start += WINDOW) {
        const float *at[WINDOW];
        float *out[WINDOW];
        uint8_t *place[WINDOW];
        for (int t = 0; t < WINDOW; t++) {
            /* What is computed beyond the last window is the first of the four again. */
            const int64_t w = start + t < windows ? start + t : start;
            const int64_t y = w / across, x = w % across;
            at[t] = first + 2 * (y * k->line + x * k->inputs * LANES);
            out[t] = results + side * (y * k->out_line + x * k->outputs * LANES);
            if (places) place[t] = places + w * k->outputs * LANES;
        }
        tiled_windows(k, at, out, places ? place : NULL);
    }
}

static Tiling tiling_of(const Network *n, const Step *s)
{
    return (Tiling){.inputs = s->in.channels,
                    .outputs = s->out.channels,
                    .line = padded_width(&s->in) * s->in.channels * LANES,
                    .out_line = padded_width(&s->out) * s->out.channels * LANES,
                    .kernels = s->kernels,
                    .biases = n->packed + s->biases,
                    .tiles = n->tiles,
                    .products = n->products,
                    .relu = s->is.relu,
                    .is_pooled = s->is.pool == 2};
}

static void winograd_forward(const Network *n, const Step *s, int train)
{
    const Tiling k = tiling_of(n, s);
    tiled_image(&k, s->in.value + input_of(s, 0, 0) * LANES,
                s->out.value + place_of(&s->out, 0, 0) * LANES, train ? s->window : NULL,
                s->out.height, s->out.width);
}

#endif
