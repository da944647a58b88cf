/* The steps of a network forward and backward, over the groups of eight samples of a batch. */
#ifndef COTERIE_PASSES_H
#define COTERIE_PASSES_H

#include "activation.h"
#include "batch_norm.h"
#include "dense_convolution.h"
#include "embedding.h"
#include "frozen.h"
#include "linear.h"
#include "normalization.h"
#include "pooling.h"
#include "winograd.h"

typedef struct {
    const float *inputs;           /* (num_rows, channels, height, width); or int64 tokens */
    const void *targets;           /* int64 classes, or float32 values (num_rows, outputs) */
    int64_t num_rows;
} Data;

/* Samples that are in memory at the same time: a group of eight, or a whole batch. */
typedef struct {
    const int64_t *rows;
    int64_t count;
    uint64_t stream;               /* key of the random numbers of the batch */
    int64_t first_group;           /* its first group's number within the batch */
    int train;
} Samples;

/* Bring up to eight samples into lanes; lanes beyond the last sample repeat the first one. */
static void gather(const Tensor *in, const Data *data, const int64_t *rows, int64_t count)
{
    const int64_t plane = in->height * in->width, size = plane * in->channels;
    const float *sample[LANES], *from[LANES];
    for (int b = 0; b < LANES; b++) sample[b] = data->inputs + rows[b < count ? b : 0] * size;
    const int whole = in->pad_height == 0 && in->pad_width == 0;
    const int64_t length = whole ? plane : in->width, lines = whole ? 1 : in->height;
    for (int64_t c = 0; c < in->channels; c++)
        for (int64_t y = 0; y < lines; y++) {
            for (int b = 0; b < LANES; b++) from[b] = sample[b] + c * plane + y * length;
            to_lanes(from, in->value + (place_of(in, y, 0) + c) * LANES, in->channels, length);
        }
}

static void gather_tokens(const Step *s, const Data *data, const int64_t *rows, int64_t count)
{
    const int64_t *tokens = (const int64_t *)(const void *)data->inputs;
    for (int b = 0; b < LANES; b++)
        for (int64_t t = 0; t < s->in.channels; t++)
            s->place[t * LANES + b] =
                (int32_t)tokens[rows[b < count ? b : 0] * s->in.channels + t];
}

static void gather_all(Network *n, const Data *data, const Samples *b)
{
    for (int64_t g = 0; g < num_groups_of(b->count); g++) {
        const Step first = step_at(&n->steps[0], g);
        const Tensor in = tensor_at(n->first, g);
        const int64_t *rows = b->rows + g * LANES, used = lanes_used(b->count, g);
        if (first.is.kind == EMBEDDING) gather_tokens(&first, data, rows, used);
        else gather(&in, data, rows, used);
    }
}

static void convolution_forward(const Network *n, const Step *s, int train)
{
    if (s->is_dense) dense_forward(n, s);
    else if (is_winograd(s)) winograd_forward(n, s, train);
    else if (s->is.pool == 2) convolution_pooled(n, s, train);
    else convolution_plain(n, s);
}

/* One step forward for one group; `stream` is the key of the group's random numbers. */
static void step_forward(Network *n, Step *s, int32_t number, int train, uint64_t stream)
{
    switch (s->is.kind) {
    case CONVOLUTION: convolution_forward(n, s, train); break;
    case LINEAR: linear_forward(n, s); break;
    case MAX_POOL: max_pool_forward(s); break;
    case AVERAGE_POOL: average_pool(s, 0); break;
    case RELU: relu_forward(s); break;
    case DROPOUT:
        s->stream = mixed(stream, (uint64_t)number);
        dropout_forward(s, train);
        break;
    case BATCH_NORM: batch_norm_evaluate(n, s); break;
    case GROUP_NORM:
    case LAYER_NORM: group_norm_forward(n, s); break;
    case EMBEDDING: embedding_forward(n, s); break;
    case ADD: add_forward(s); break;
    default: activate(s, 0); break;
    }
}

/* Run the steps from `start` to before `end`. */
static void forward(Network *n, int32_t start, int32_t end, const Samples *b)
{
    const int64_t groups = num_groups_of(b->count);
    for (int32_t i = start; i < end; i++) {
        Step *s = &n->steps[i];
        if (b->train && s->is.kind == BATCH_NORM) {
            batch_norm_train(n, s, b->count);
            continue;
        }
        for (int64_t g = 0; g < groups; g++) {
            const uint64_t stream = mixed(b->stream, (uint64_t)(b->first_group + g));
            if (g == 0) {
                step_forward(n, s, i, b->train, stream);
                continue;
            }
            Step here = step_at(s, g);
            step_forward(n, &here, i, b->train, stream);
        }
    }
}

/* Add the gradients of convolutions that follow each other, or of a dense one. */
static void convolution_backward(Network *n, const Step *first, const Step *last, int num_samples,
                                 int with_inputs)
{
    if (!last->is_dense) {
        convolutions_backward(n, first, last, num_samples, with_inputs);
        return;
    }
    if (last->is.relu) mask_gradient(last);
    if (with_inputs) dense_input_gradient(n, last);
    dense_weight_gradient(n, last, num_samples);
}

static void linear_backward(Network *n, const Step *s, int with_inputs, const Update *fused)
{
    if (s->is.relu) mask_gradient(s);
    if (with_inputs) linear_input_gradient(n, s);
    if (s->is.layer < n->first_layer) return;
    if (s->is.bias >= 0) linear_bias_gradient(n, s);
    linear_weight_gradient(n, s, fused);
}

static void add_backward(const Network *n, const Step *s)
{
    if (s->source >= 0 && n->steps[s->source].has_gradient) pass_gradient(s, &s->in, s->adds);
    if (s->second >= 0 && n->steps[s->second].has_gradient)
        pass_gradient(s, &s->other, s->second_adds);
}

/* One step backward for one group; a convolution with those before it from `first` on. */
static void step_backward(Network *n, const Step *first, Step *s, int num_samples, int with_inputs,
                          const Update *fused)
{
    switch (s->is.kind) {
    case CONVOLUTION: convolution_backward(n, first, s, num_samples, with_inputs); break;
    case LINEAR: linear_backward(n, s, with_inputs, fused); break;
    case MAX_POOL: max_pool_backward(s); break;
    case AVERAGE_POOL: average_pool(s, 1); break;
    case RELU: relu_backward(s); break;
    case DROPOUT: dropout_backward(s); break;
    case GROUP_NORM:
    case LAYER_NORM: group_norm_backward(n, s, with_inputs); break;
    case ADD: add_backward(n, s); break;
    default: activate(s, 1); break;
    }
}

/* Whether a convolution and the one before are handled sample by sample through both. */
static int is_followed(const Network *n, const Step *s)
{
    return n->is_plain && s->source >= 0 && s->is.kind == CONVOLUTION &&
           n->steps[s->source].is.kind == CONVOLUTION;
}

/* Add the gradients of all steps from `first` on; `fused` updates linear weights at once. */
static void backward(Network *n, int32_t first, const Samples *b, const Update *fused)
{
    const int64_t groups = num_groups_of(b->count);
    for (int32_t i = n->num_steps - 1; i >= first; i--) {
        Step *s = &n->steps[i], *start = s;
        if (!s->has_gradient) continue;
        for (; i > first && is_followed(n, start); i--) start--;
        const int with_inputs = start->source >= 0 && n->steps[start->source].has_gradient;
        const int aside = with_inputs && s->adds && s->is.kind != ADD;
        float *const gradient = s->in.gradient;
        if (aside) s->in.gradient = n->spare;
        if (s->is.kind == BATCH_NORM) batch_norm_backward(n, s, b->count, with_inputs);
        for (int64_t g = 0; g < groups; g++) {
            Step here = groups > 1 ? step_at(s, g) : *s;
            const int used = (int)lanes_used(b->count, g);
            if (s->is.kind != BATCH_NORM) {
                if (start != s) step_backward(n, start, s, used, with_inputs, fused);
                else if (s->is.kind == EMBEDDING) embedding_backward(n, s, here.place, used);
                else step_backward(n, &here, &here, used, with_inputs, fused);
            }
            if (!aside) continue;
            here.in.gradient = gradient + g * num_values(&s->in) * LANES;
            add_spare(n->spare + g * num_values(&s->in) * LANES, &here.in);
        }
        s->in.gradient = gradient;
    }
}

/* Set which steps have parameters that are trained, or come after such a step; return the first. */
static int32_t find_trained(Network *n, int32_t first_layer)
{
    int32_t first = n->num_steps;
    n->first_layer = first_layer;
    for (int32_t i = n->num_steps - 1; i >= 0; i--) {
        const Step *s = &n->steps[i];
        if (s->num_weights && s->is.layer >= first_layer) first = i;
    }
    for (int32_t i = 0; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        s->has_gradient = (s->num_weights && s->is.layer >= first_layer) ||
                          (s->source >= 0 && n->steps[s->source].has_gradient) ||
                          (s->second >= 0 && n->steps[s->second].has_gradient);
    }
    return first;
}

/* Run all steps before `first`, which are not trained, or use their kept results. */
static void forward_frozen(Network *n, const Data *data, int32_t first, const Samples *b,
                           Frozen *frozen)
{
    const Tensor *reached = first < n->num_steps ? &n->steps[first].in : &n->first;
    if (recall_frozen(frozen, reached, b->rows, b->count)) return;
    gather_all(n, data, b);
    forward(n, 0, first, b);
    keep_frozen(frozen, reached, b->rows, b->count);
}

#endif
