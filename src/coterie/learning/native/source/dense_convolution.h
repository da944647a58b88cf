/* Convolutions whose gradients have few zeros, such as those before a normalisation.
 *
 * Forward and for the gradient of the inputs, eight samples fill a vector, as in convolution.h: the
 * second is a convolution of the gradient with the kernels by input channel, one for each place
 * within a stride. For the gradient of the weights, the values of a kernel row fill vectors, and
 * the sums run over samples and positions.
 */
#ifndef COTERIE_DENSE_CONVOLUTION_H
#define COTERIE_DENSE_CONVOLUTION_H

#include "convolution_gradient.h"
#include "dense_sums.h"
#include "tiled_gradient.h"

static void dense_forward(const Network *n, const Step *s)
{
    if (is_tiled(s)) tiled_forward(n, s);
    else convolution_plain(n, s);
}

/* The output positions that one side's inputs at `place`, `place` + stride, … are part of. */
typedef struct {
    int64_t taps, last;            /* how many, and the kernel place of the first of them */
    int64_t first;                 /* the first output position, which may lie outside */
    int64_t count;                 /* inputs */
} Side;

static Side side_of(const Step *s, int axis, int64_t place)
{
    const int64_t stride = s->is.stride[axis], kernel = s->is.kernel[axis];
    const int64_t size = axis ? s->in.width : s->in.height;
    const int64_t offset = place + s->is.padding[axis];
    Side side = {.count = place < size ? (size - place + stride - 1) / stride : 0};
    if (offset % stride >= kernel) return side;
    side.taps = (kernel - 1 - offset % stride) / stride + 1;
    side.last = offset % stride + (side.taps - 1) * stride;
    side.first = offset / stride - side.taps + 1;
    return side;
}

/* How wide a border of zeros the gradient of a convolution's output needs on one side. */
static int64_t gradient_border(const Step *s, int axis)
{
    const int64_t size = axis ? s->out.width : s->out.height;
    int64_t border = 0;
    for (int64_t place = 0; place < s->is.stride[axis]; place++) {
        const Side side = side_of(s, axis, place);
        if (side.taps == 0 || side.count == 0) continue;
        const int64_t beyond = side.first + side.count + side.taps - 1 - size;
        if (-side.first > border) border = -side.first;
        if (beyond > border) border = beyond;
    }
    return border;
}

/* Bring the kernels of one place within the stride to (input channel, row, column x output). */
static void flip_kernels(const Network *n, const Step *s, const Side *down, const Side *right)
{
    const int64_t inputs = s->in.channels, outputs = s->out.channels;
    const int64_t next = s->is.kernel[0] * s->padded_row;
    const int64_t size = down->taps * right->taps * outputs;
    for (int64_t y = 0; y < down->taps; y++)
        for (int64_t x = 0; x < right->taps; x++) {
            const int64_t ky = down->last - y * s->is.stride[0];
            const int64_t kx = right->last - x * s->is.stride[1];
            const float *from = n->packed + s->weights + ky * s->padded_row + kx * inputs;
            float *to = s->flipped + (y * right->taps + x) * outputs;
            int64_t o = 0;
            for (; o + LANES <= outputs; o += LANES) {
                int64_t c = 0;
                for (; c + LANES <= inputs; c += LANES) {
                    vec row[LANES], column[LANES];
                    for (int i = 0; i < LANES; i++) row[i] = load(from + (o + i) * next + c);
                    transpose(row, column);
                    for (int i = 0; i < LANES; i++) store(to + (c + i) * size + o, column[i]);
                }
                for (; c < inputs; c++)
                    for (int i = 0; i < LANES; i++)
                        to[c * size + o + i] = from[(o + i) * next + c];
            }
            for (; o < outputs; o++)
                for (int64_t c = 0; c < inputs; c++) to[c * size + o] = from[o * next + c];
        }
}

/* The gradient of the output within a border of zeros. */
static Tensor bordered_gradient(Network *n, const Step *s)
{
    Tensor wide = s->out;
    wide.pad_height = gradient_border(s, 0);
    wide.pad_width = gradient_border(s, 1);
    wide.gradient = n->bordered;
    const int64_t count = s->out.width * s->out.channels * LANES;
    memset(wide.gradient, 0, sizeof(float) * (size_t)(num_values(&wide) * LANES));
    for (int64_t y = 0; y < s->out.height; y++)
        memcpy(wide.gradient + place_of(&wide, y, 0) * LANES,
               s->out.gradient + place_of(&s->out, y, 0) * LANES, sizeof(float) * (size_t)count);
    return wide;
}

static void dense_input_gradient(Network *n, const Step *s)
{
    const Tensor wide = bordered_gradient(n, s);
    const int64_t outputs = s->out.channels;
    if (is_tiled(s)) {
        tiled_input_gradient(n, s, &wide);
        return;
    }
    memset(s->in.gradient, 0, sizeof(float) * (size_t)(num_values(&s->in) * LANES));
    for (int64_t py = 0; py < s->is.stride[0]; py++)
        for (int64_t px = 0; px < s->is.stride[1]; px++) {
            const Side down = side_of(s, 0, py), right = side_of(s, 1, px);
            const int64_t positions = down.count * right.count;
            if (positions == 0 || down.taps * right.taps == 0) continue;
            flip_kernels(n, s, &down, &right);
            const Kernels k = {.weights = s->flipped,
                               .channels = s->in.channels,
                               .rows = down.taps,
                               .row = right.taps * outputs,
                               .next_channel = down.taps * right.taps * outputs,
                               .next_row = right.taps * outputs,
                               .line = padded_width(&wide) * outputs * LANES};
            for (int64_t first = 0; first < positions; first += WINDOW) {
                const int64_t left = positions - first, count = left < WINDOW ? left : WINDOW;
                const float *at[WINDOW];
                float *out[WINDOW];
                for (int64_t p = 0; p < count; p++) {
                    const int64_t y = (first + p) / right.count, x = (first + p) % right.count;
                    at[p] = wide.gradient +
                            place_of(&wide, down.first + y, right.first + x) * LANES;
                    out[p] = s->in.gradient + LANES * place_of(&s->in, py + y * s->is.stride[0],
                                                               px + x * s->is.stride[1]);
                }
                channels_at(&k, at, out, count);
            }
        }
}

/* Add the products of a block of outputs, from `output` on, with all values of their kernels. */
static void add_block(Network *n, const Step *s, const Entries *e, const Products *products,
                      int64_t output, int64_t lanes)
{
    const int64_t next = s->is.kernel[0] * s->padded_row, vectors = s->padded_row / lanes;
    const int64_t line = padded_width(&s->in) * s->in.channels;
    for (int64_t y = 0; y < s->is.kernel[0]; y++)
        for (int64_t v = 0; v < vectors; v += BLOCK_VECTORS) {
            const int64_t width = vectors - v < BLOCK_VECTORS ? vectors - v : BLOCK_VECTORS;
            products[width](e, y * line + v * lanes, output,
                            n->gradient + s->weights + output * next + y * s->padded_row +
                                v * lanes,
                            next);
        }
}

static void add_entries(Network *n, const Step *s, const Entries *e)
{
    const int64_t channels = s->out.channels;
    int64_t o = 0;
#if HAS_WIDE
    if (has_wide && s->padded_row % WIDE_LANES == 0)
        for (; o + WIDE_OUTPUTS <= channels; o += WIDE_OUTPUTS)
            add_block(n, s, e, WIDE_PRODUCTS, o, WIDE_LANES);
#endif
    for (; o < channels; o += BLOCK_OUTPUTS) {
        const int64_t outputs = channels - o < BLOCK_OUTPUTS ? channels - o : BLOCK_OUTPUTS;
        add_block(n, s, e, PRODUCTS[outputs], o, LANES);
    }
}

static void dense_bias_gradient(Network *n, const Step *s)
{
    for (int64_t o = 0; o < s->out.channels; o++) {
        vec sum = all(0);
        for (int64_t y = 0; y < s->out.height; y++) {
            const float *from = s->out.gradient + (place_of(&s->out, y, 0) + o) * LANES;
            for (int64_t x = 0; x < s->out.width; x++)
                sum += load(from + x * s->out.channels * LANES);
        }
        for (int b = 0; b < LANES; b++) n->gradient[s->biases + o] += sum[b];
    }
}

static void direct_weight_gradient(Network *n, const Step *s, int64_t num_samples)
{
    const int64_t in_size = sample_size(&s->in), out_size = sample_size(&s->out);
    Entries e;
    e.count = 0;
    for (int64_t b = 0; b < num_samples; b++)
        for (int64_t y = 0; y < s->out.height; y++)
            for (int64_t x = 0; x < s->out.width; x++) {
                e.in[e.count] = n->inputs + b * in_size + input_of(s, y, x);
                e.gradient[e.count++] = n->gradients + b * out_size + place_of(&s->out, y, x);
                if (e.count < ENTRIES) continue;
                add_entries(n, s, &e);
                e.count = 0;
            }
    if (e.count) add_entries(n, s, &e);
    clear_padding(n, s);
}

static void dense_weight_gradient(Network *n, const Step *s, int64_t num_samples)
{
    const int64_t in_size = sample_size(&s->in), out_size = sample_size(&s->out);
    to_samples(s->in.value, n->inputs, in_size, rounded_up(num_values(&s->in)));
    to_samples(s->out.gradient, n->gradients, out_size, rounded_up(num_values(&s->out)));
    if (is_tiled(s)) tiled_weight_gradient(n, s, num_samples);
    else direct_weight_gradient(n, s, num_samples);
    if (s->is.bias >= 0) dense_bias_gradient(n, s);
}

#endif
