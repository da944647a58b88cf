/* Dense convolutions of 3 x 3 by Winograd's minimal filtering F(2 x 2, 3 x 3), as in winograd.h:
 * forward, and for the gradient of the inputs, which is a convolution with turned kernels.
 */
#ifndef COTERIE_DENSE_TILES_H
#define COTERIE_DENSE_TILES_H

#include "dense_sums.h"
#include "winograd.h"

/* Channels and positions from which on it is faster than without. */
#define FEWEST_TILED 16
#define FEWEST_POSITIONS 64

typedef struct {
    int64_t inputs, outputs;       /* channels */
    int64_t line, out_line;        /* floats from one line to the next, of inputs and of results */
    const float *kernels;          /* transformed: (16, output, input in whole vectors) */
    const float *biases;           /* NULL: none */
    float *tiles, *products;
    int relu;
} Tiling;

#define VECTOR vec
#define WINDOWS 1
#define TILE_OUTPUTS 3
#define NAME_OF(name) name##_narrow
#define HERE static __attribute__((noinline))
#define HERE_INLINE INLINE
#define GATHER(at, t, offset) load((at)[t] + (offset))
#define PUT(value, out, t, offset) store((out)[t] + (offset), value)
#define READ load
#define WRITE store
#define ALL all
#define LARGER larger
#include "tile_steps.h"
#undef VECTOR
#undef WINDOWS
#undef TILE_OUTPUTS
#undef NAME_OF
#undef HERE
#undef HERE_INLINE
#undef GATHER
#undef PUT
#undef READ
#undef WRITE
#undef ALL
#undef LARGER

#if HAS_WIDE
#define VECTOR wide
#define WINDOWS 2
#define TILE_OUTPUTS 8
#define NAME_OF(name) name##_wide
#define HERE WIDE
#define HERE_INLINE WIDE_INLINE
#define GATHER(at, t, offset) join((at)[t] + (offset), (at)[(t) + 1] + (offset))
#define PUT(value, out, t, offset) part(value, (out)[t] + (offset), (out)[(t) + 1] + (offset))
#define READ load_wide
#define WRITE store_wide
#define ALL all_wide
#define LARGER larger_wide
#include "tile_steps.h"
#endif

/* Whether a dense convolution is computed by tiles: images of even sides, and many channels. */
static int is_tiled(const Step *s)
{
    return s->is_dense && s->is.kernel[0] == 3 && s->is.kernel[1] == 3 && s->is.stride[0] == 1 &&
           s->is.stride[1] == 1 && s->in.channels >= FEWEST_TILED &&
           s->out.channels >= FEWEST_TILED &&
           s->out.height * s->out.width >= FEWEST_POSITIONS && s->in.height % 2 == 0 && s->in.width % 2 == 0 &&
           s->out.height % 2 == 0 && s->out.width % 2 == 0;
}

/* Transform the weights of all layers of a network that need it, after they have changed. */
static void transform_all_kernels(const Network *n)
{
    for (int32_t i = 0; i < n->num_steps; i++)
        if (is_winograd(&n->steps[i]) || is_tiled(&n->steps[i]))
            transform_kernels(n, &n->steps[i]);
}

/* Bring transformed kernels to (16, input channel, output), turned by half a circle: that
 * exchanges the first and the last of the four values along each side. */
static void turn_kernels(const Step *s)
{
    static const int turned[4] = {3, 1, 2, 0};
    const int64_t inputs = s->in.channels, outputs = s->out.channels;
    const int64_t from_row = rounded_up(inputs), to_row = rounded_up(outputs);
    for (int i = 0; i < TILE; i++) {
        const float *from = s->kernels + i * outputs * from_row;
        float *to = s->flipped + (4 * turned[i / 4] + turned[i % 4]) * inputs * to_row;
        for (int64_t o = 0; o < outputs; o += LANES)
            for (int64_t c = 0; c < inputs; c += LANES) {
                vec row[LANES], column[LANES];
                for (int b = 0; b < LANES; b++)
                    row[b] = o + b < outputs ? load(from + (o + b) * from_row + c) : all(0);
                transpose(row, column);
                for (int b = 0; b < LANES && c + b < inputs; b++)
                    store(to + (c + b) * to_row + o, column[b]);
            }
    }
}

/* Compute all windows of an image of `height` x `width` results: `first` is where the inputs of the
 * first one begin. */
static void tiled_image(const Tiling *k, const float *first, float *results, int64_t height,
                        int64_t width)
{
    const int64_t across = width / 2, windows = height / 2 * across;
    for (int64_t start = 0; start < windows; start += WINDOW) {
        const float *at[WINDOW];
        float *out[WINDOW];
        for (int t = 0; t < WINDOW; t++) {
            /* What is computed beyond the last window is the first of the four again. */
            const int64_t w = start + t < windows ? start + t : start;
            const int64_t y = 2 * (w / across), x = 2 * (w % across);
            at[t] = first + y * k->line + x * k->inputs * LANES;
            out[t] = results + y * k->out_line + x * k->outputs * LANES;
        }
#if HAS_WIDE
        if (has_wide) {
            tiled_windows_wide(k, at, out);
            continue;
        }
#endif
        tiled_windows_narrow(k, at, out);
    }
}

static void tiled_forward(const Network *n, const Step *s)
{
    const Tiling k = {.inputs = s->in.channels,
                      .outputs = s->out.channels,
                      .line = padded_width(&s->in) * s->in.channels * LANES,
                      .out_line = padded_width(&s->out) * s->out.channels * LANES,
                      .kernels = s->kernels,
                      .biases = n->packed + s->biases,
                      .tiles = n->tiles,
                      .products = n->products,
                      .relu = s->is.relu};
    tiled_image(&k, s->in.value + input_of(s, 0, 0) * LANES,
                s->out.value + place_of(&s->out, 0, 0) * LANES, s->out.height, s->out.width);
}

/* The gradient of the inputs, from that of the outputs within a border of zeros. */
static void tiled_input_gradient(const Network *n, const Step *s, const Tensor *bordered)
{
    const int64_t down = s->is.padding[0] - 2 + bordered->pad_height;
    const int64_t right = s->is.padding[1] - 2 + bordered->pad_width;
    turn_kernels(s);
    const Tiling k = {.inputs = s->out.channels,
                      .outputs = s->in.channels,
                      .line = padded_width(bordered) * s->out.channels * LANES,
                      .out_line = padded_width(&s->in) * s->in.channels * LANES,
                      .kernels = s->flipped,
                      .tiles = n->tiles,
                      .products = n->products};
    const float *first = bordered->gradient +
                         (down * padded_width(bordered) + right) * s->out.channels * LANES;
    tiled_image(&k, first, s->in.gradient + place_of(&s->in, 0, 0) * LANES, s->in.height,
                s->in.width);
}

#endif
