/* From a list of operations to a network with its memory; sizes that do not fit are refused. */
#ifndef COTERIE_PLAN_H
#define COTERIE_PLAN_H

#include "dense_convolution.h"
#include "memory.h"
#include "network.h"
#include "shared_gradients.h"
#include "winograd.h"

static int is_sound(const Operation *o)
{
    if (o->kind < CONVOLUTION || o->kind > LAST_KIND) return 0;
    if (o->kind == CONVOLUTION || o->kind == LINEAR)
        if (!in_range(o->outputs, 1) || o->weight < 0 || o->bias < -1) return 0;
    if (o->kind == CONVOLUTION || o->kind == MAX_POOL || o->kind == AVERAGE_POOL)
        for (int i = 0; i < 2; i++) {
            if (!in_range(o->kernel[i], 1) || !in_range(o->stride[i], 1) ||
                !in_range(o->padding[i], 0))
                return 0;
            /* A window that holds padding alone would have no maximum. */
            if (o->kind != CONVOLUTION && 2 * o->padding[i] > o->kernel[i]) return 0;
        }
    if (o->kind == CONVOLUTION && o->pool != 1 && o->pool != 2) return 0;
    if (o->kind >= BATCH_NORM && o->kind <= LAYER_NORM)
        if (!(o->epsilon >= 0) || o->weight < -1 || o->bias < -1) return 0;
    if (o->kind == BATCH_NORM && (o->mean < 0 || o->variance < 0)) return 0;
    if (o->kind == GROUP_NORM && !in_range(o->count, 1)) return 0;
    if (o->kind == EMBEDDING)
        if (!in_range(o->outputs, 1) || !in_range(o->count, 1) || o->weight < 0) return 0;
    return o->kind != DROPOUT || (o->rate >= 0 && o->rate <= 1);
}

/* How many positions a window takes along one side. */
static int64_t steps_along(const Operation *o, int64_t side, int axis)
{
    const int64_t room = side + 2 * o->padding[axis] - o->kernel[axis];
    return room < 0 ? 0 : (room / o->stride[axis] + 1) / (o->kind == CONVOLUTION ? o->pool : 1);
}

INLINE int is_normalization(const Step *s)
{
    return s->is.kind >= BATCH_NORM && s->is.kind <= LAYER_NORM;
}

/* Give a normalisation its place among the packed parameters: scales, shifts, and the running means
 * and variances, which no optimiser changes. */
static int shape_normalization(Network *n, Step *s)
{
    const Operation *o = &s->is;
    const int64_t spots = s->in.height * s->in.width, channels = s->in.channels;
    const int64_t features = o->kind == LAYER_NORM || o->is_flat ? spots * channels : channels;
    if (o->kind == GROUP_NORM && channels % o->count) return 0;
    s->row = features;
    s->padded_row = rounded_up(features);
    s->weights = n->num_packed;
    s->biases = s->weights + s->padded_row;
    s->running = s->biases + s->padded_row;
    s->num_weights = o->weight >= 0 || o->bias >= 0 ? 2 * s->padded_row : 0;
    n->num_packed += (o->kind == BATCH_NORM ? 4 : 2) * s->padded_row;
    return 1;
}

/* Leave out the rows and columns of a kernel that never meet a pixel, on small images. */
static void trim_kernel(Step *s)
{
    Operation *o = &s->is;
    const int64_t sizes[2] = {s->in.height, s->in.width};
    for (int i = 0; i < 2; i++) {
        const int64_t last = steps_along(o, sizes[i], i) - 1;
        int64_t start = o->padding[i] - last * o->stride[i];
        int64_t stop = o->padding[i] + sizes[i];
        if (start < 0) start = 0;
        if (stop > o->kernel[i]) stop = o->kernel[i];
        s->skipped[i] = start;
        o->kernel[i] = (int32_t)(stop - start);
        o->padding[i] -= (int32_t)start;
    }
}

/* Set the shape of a step's output and its place among the packed parameters. */
static int shape_step(Network *n, Step *s)
{
    const Operation *o = &s->is;
    const Tensor *in = &s->in;
    s->out = *in;
    s->out.pad_height = s->out.pad_width = 0;
    if (o->kind == CONVOLUTION || o->kind == MAX_POOL || o->kind == AVERAGE_POOL) {
        s->out.height = steps_along(o, in->height, 0);
        s->out.width = steps_along(o, in->width, 1);
        if (s->out.height < 1 || s->out.width < 1) return 0;
    }
    for (int i = 0; i < 2; i++) s->full[i] = o->kernel[i];
    if (s->is_dense && n->leaves_out) trim_kernel(s);
    int64_t rows = 0;
    if (is_normalization(s)) return shape_normalization(n, s);
    if (o->kind == ADD)
        return in->height == s->other.height && in->width == s->other.width &&
               in->channels == s->other.channels;
    if (o->kind == CONVOLUTION) {
        if (!small_product(o->kernel[1], in->channels, 1)) return 0;
        s->out.channels = o->outputs;
        s->row = o->kernel[1] * in->channels;
        rows = (int64_t)o->outputs * o->kernel[0];
    } else if (o->kind == LINEAR) {
        s->out.height = s->out.width = 1;
        s->out.channels = o->outputs;
        s->row = in->height * in->width * in->channels;
        rows = o->outputs;
    } else if (o->kind == EMBEDDING) {
        if (in->height != 1 || in->width != 1 || s->source >= 0) return 0;
        if (!small_product(in->channels, o->outputs, 1)) return 0;
        s->out.channels = o->outputs * (o->is_flat ? in->channels : 1);
        s->row = o->outputs;
        rows = o->count;
    }
    s->padded_row = rounded_up(s->row);
    if (rows) {
        if (!small_product(rows, s->padded_row, 1)) return 0;
        s->weights = n->num_packed;
        s->biases = s->weights + rows * s->padded_row;
        s->num_weights = rows * s->padded_row +
                         (o->kind == EMBEDDING ? 0 : rounded_up(o->outputs));
        n->num_packed += s->num_weights;
    }
    return small_product(s->out.height, s->out.width, s->out.channels);
}

/* The border that a convolution needs on one side of its input. */
static int64_t border_of(const Step *s, int axis)
{
    const Operation *o = &s->is;
    const int64_t size = axis ? s->in.width : s->in.height;
    const int64_t out = axis ? s->out.width : s->out.height;
    if (!s->is_dense) return o->padding[axis];
    /* What is left out of a kernel need not be the same on both sides. */
    return most(o->padding[axis], (out - 1) * o->stride[axis] - o->padding[axis] +
                                      o->kernel[axis] - size);
}

/* Give a tensor the border that one of the convolutions that read it needs. */
static void pad_for(Tensor *t, const Step *reader)
{
    if (reader->is.kind != CONVOLUTION) return;
    t->pad_height = most(t->pad_height, border_of(reader, 0));
    t->pad_width = most(t->pad_width, border_of(reader, 1));
}

static int reserve_tensor(Network *n, Tensor *t)
{
    if (!small_product(padded_height(t), padded_width(t), t->channels)) return 0;
    if (!small_product(num_values(t), n->num_groups, 1)) return 0;
    t->value = reserve(n, num_values(t) * LANES * n->num_groups);
    if (n->is_plain) t->gradient = reserve(n, num_values(t) * LANES * n->num_groups);
    return t->value && (t->gradient || !n->is_plain);
}

/* The memory of a convolution for its backward pass. */
static int reserve_convolution(Network *n, Step *s)
{
    const int64_t channels = s->out.channels, positions = s->out.height * s->out.width;
    const int64_t size = rounded_up(num_values(&s->in));
    /* A byte for each of eight samples; lists read up to 16 positions at a time. */
    const int64_t bytes = 2 * rounded_up(positions * channels) + 4 * channels;
    s->from = ((s->in.pad_height - s->is.padding[0]) * padded_width(&s->in) + s->in.pad_width -
               s->is.padding[1]) * s->in.channels;
    if (s->is_dense) {
        const int64_t places =
            is_tiled(s) ? TILE * apart_of(channels * rounded_up(s->in.channels)) : 0;
        const int64_t turned =
            is_tiled(s) ? TILE * apart_of(s->in.channels * rounded_up(channels)) : 0;
        s->kernels = reserve(n, places);
        s->flipped = reserve(n, most(s->num_weights, turned));
        return s->kernels && s->flipped;
    }
    s->inputs = reserve(n, size * LANES);
    s->num_windows = bytes * (int64_t)sizeof(float);
    s->window = reserve(n, bytes * n->num_groups);
    s->windows = reserve(n, bytes);
    s->bases = reserve(n, positions + WIDE_LANES);
    s->dx = reserve(n, size);
    s->kernels =
        reserve(n, is_winograd(s) ? TILE * apart_of(channels * rounded_up(s->in.channels)) : 0);
    if (!s->window || !s->windows || !s->bases || !s->inputs || !s->dx || !s->kernels) return 0;
    for (int64_t p = 0; p < positions; p++)
        s->bases[p] = (int32_t)input_of(s, p / s->out.width, p % s->out.width);
    return 1;
}

static int reserve_step(Network *n, Step *s)
{
    if (s->is.kind == CONVOLUTION) return reserve_convolution(n, s);
    if (s->is.kind == BATCH_NORM) {
        s->statistics = reserve(n, 2 * s->padded_row);
        return s->statistics != NULL;
    }
    if (s->is.kind == EMBEDDING) {
        s->place = reserve(n, num_values(&s->in) * LANES * n->num_groups);
        s->row_state = reserve(n, s->is.count);
        s->touched = reserve(n, s->is.count);
        return s->place && s->row_state && s->touched;
    }
    if (s->is.kind != MAX_POOL && s->is.kind != DROPOUT) return 1;
    s->place = reserve(n, num_values(&s->out) * LANES * n->num_groups);
    return s->place != NULL;
}

/* One set of scratch memory, as large as the largest step needs. */
static int reserve_scratch(Network *n)
{
    int64_t samples = 0, values = 0, inputs = 0, live = 0, list = 0, tiles = 0;
    int64_t spare = 0, bordered = 0, sums = 0, spread = 0, dense = 0, tile_sums = 0;
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->is.kind == LINEAR) samples = most(samples, s->padded_row);
        if (s->is.kind == EMBEDDING) samples = most(samples, rounded_up(s->out.channels) + LANES);
        if (s->adds) spare = most(spare, num_values(&s->in) * n->num_groups);
        if (s->is.kind == BATCH_NORM) {
            spread = most(spread, 5 * s->padded_row);
            sums = most(sums, 4 * s->padded_row);
        }
        if (s->is.kind != CONVOLUTION) continue;
        if (is_winograd(s) || is_tiled(s)) {
            const int64_t widest = wide_up(most(s->in.channels, s->out.channels));
            if (is_tiled(s)) tile_sums = most(tile_sums, num_tile_sums(s));
            tiles = most(tiles, TILE * apart_of(WINDOW * widest * LANES));
        }
        if (s->is_dense) {
            dense = most(dense, sample_size(&s->in));
            Tensor wide = s->out;
            wide.pad_height = gradient_border(s, 0);
            wide.pad_width = gradient_border(s, 1);
            if (!small_product(padded_height(&wide), padded_width(&wide), wide.channels)) return 0;
            bordered = most(bordered, num_values(&wide));
        }
        const int64_t positions = s->out.height * s->out.width, channels = s->out.channels;
        values = most(values, sample_size(&s->out));
        inputs = most(inputs, rounded_up(num_values(&s->in)));
        live = most(live, (positions + WIDE_LANES) * channels);
        list = most(list, most(rounded_up(positions), rounded_up(channels)) + LANES);
    }
    n->tiles = reserve(n, tiles);
    n->products = reserve(n, tiles);
    n->tile_sums = reserve(n, tile_sums);
    n->samples = reserve(n, samples * LANES);
    n->inputs = reserve(n, dense * LANES);
    n->values = reserve(n, values * LANES);
    n->gradients = reserve(n, values * LANES);
    n->sample_gradient = reserve(n, inputs * LANES);
    n->live = reserve(n, live);
    n->spare = reserve(n, spare * LANES);
    n->bordered = reserve(n, bordered * LANES);
    n->sums = reserve(n, sums);
    n->spread = reserve(n, spread * LANES);
    n->list_values = reserve(n, list * LANES);
    n->list_offsets = reserve(n, list * LANES);
    n->packed = reserve(n, n->num_packed);
    n->gradient = reserve(n, n->num_packed);
    n->first_moment = reserve(n, n->num_packed);
    n->second_moment = reserve(n, n->num_packed);
    return n->tiles && n->products && n->tile_sums && n->samples && n->inputs && n->values && n->gradients &&
           n->sample_gradient && n->live && n->spare && n->bordered && n->sums && n->spread && n->list_values && n->list_offsets && n->packed &&
           n->gradient && n->first_moment && n->second_moment;
}

/* The step that is `back` steps before number `i`; -1: the input; less: there is none. */
static int32_t step_before(int32_t i, int32_t back) { return back < 1 || back > i + 1 ? -2 : i - back; }

/* Find what each step reads; return 0 if something is not there. */
static int connect(Network *n, const Operation *operations)
{
    n->is_chain = n->is_plain = 1;
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        if (!is_sound(&operations[i])) return 0;
        s->is = operations[i];
        s->source = step_before(i, s->is.source);
        s->second = s->is.kind == ADD ? step_before(i, s->is.other) : -2;
        if (s->source == -2 || (s->is.kind == ADD && s->second == -2)) return 0;
        if (s->source != i - 1 || s->is.kind == ADD) n->is_chain = 0;
        if (s->is.kind > DROPOUT) n->is_plain = 0;
        if (s->is.kind == BATCH_NORM) n->whole_batch = 1;
        /* Tokens are no values that anything else could read. */
        if (s->source < 0 && i > 0 && operations[0].kind == EMBEDDING) return 0;
        if (s->second == -1 && operations[0].kind == EMBEDDING) return 0;
    }
    n->is_plain = n->is_plain && n->is_chain;
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->is_dense = !n->is_plain && s->is.kind == CONVOLUTION && s->is.pool == 1;
        for (int32_t j = i; j < n->num_steps; j++) {
            const Step *later = &n->steps[j];
            if (j > i && (later->source == s->source || later->second == s->source)) s->adds = 1;
            if (s->second == -2) continue;
            if (j > i && (later->source == s->second || later->second == s->second))
                s->second_adds = 1;
        }
        if (s->source == s->second) s->second_adds = 1;
    }
    return 1;
}

static int fits(const Step *s)
{
    /* These read and write values without a border between them. */
    const int bare = s->is.kind == LINEAR || s->is.kind == EMBEDDING || s->is.is_flat;
    return !bare || (num_values(&s->in) == s->in.height * s->in.width * s->in.channels &&
                     num_values(&s->out) == s->out.height * s->out.width * s->out.channels);
}

static int lay_out(Network *n, const Operation *operations)
{
    if (!connect(n, operations)) return 0;
    if (!n->whole_batch) n->num_groups = 1;
    n->first = (Tensor){.channels = n->input[0], .height = n->input[1], .width = n->input[2]};
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->in = *output_of(n, s->source);
        s->in.pad_height = s->in.pad_width = 0;
        if (s->is.kind == ADD) s->other = *output_of(n, s->second);
        if (!shape_step(n, s)) return 0;
        pad_for(output_of(n, s->source), s);
    }
    if (!small_product(n->num_packed, 1, 1)) return 0;
    if (!reserve_tensor(n, &n->first)) return 0;
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->in = *output_of(n, s->source);
        if (s->is.kind == ADD) s->other = *output_of(n, s->second);
        if (!reserve_tensor(n, &s->out) || !reserve_step(n, s) || !fits(s)) return 0;
    }
    if (!n->is_plain && !share_gradients(n)) return 0;
    const Tensor *last = &n->steps[n->num_steps - 1].out;
    n->num_outputs = (int32_t)last->channels;
    return last->height == 1 && last->width == 1 && reserve_scratch(n) &&
           n->loss >= CROSS_ENTROPY && n->loss <= ABSOLUTE_ERROR;
}

/* Return a network ready to use, or NULL if its sizes are impossible or too large. `batch_size` is
 * the largest of all batches; without weight decay (`leaves_out`), weights that have no gradient
 * need not be read. */
static Network *plan(const Operation *operations, int32_t count, const int64_t input[3],
                     int32_t loss, int64_t batch_size, int32_t leaves_out)
{
    if (count < 1 || count > 1024) return NULL;
    for (int i = 0; i < 3; i++)
        if (!in_range(input[i], 1)) return NULL;
    if (!small_product(input[0], input[1], input[2]) || !in_range(batch_size, 1)) return NULL;
    Network *n = calloc(1, sizeof(Network));
    if (!n) return NULL;
    n->steps = calloc((size_t)count, sizeof(Step));
    n->num_steps = count;
    n->num_groups = num_groups_of(batch_size);
    n->leaves_out = leaves_out;
    n->loss = loss;
    memcpy(n->input, input, sizeof(n->input));
    if (!n->steps || !lay_out(n, operations)) {
        release(n);
        return NULL;
    }
    return n;
}

#endif
