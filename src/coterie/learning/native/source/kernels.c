/* One translation unit, compiled once for every level of processor; LEVEL names the level.
 *
 * A call is a whole local training of a peer, or a whole evaluation: nothing goes back to the
 * caller in between, and the results depend on the arguments alone.
 */
#include <stdlib.h>

#include "convolution_gradient.h"
#include "frozen.h"
#include "linear.h"
#include "loss.h"
#include "peak.h"
#include "plan.h"
#include "pooling.h"
#include "winograd.h"

#define JOIN(a, b) a##b
#define NAMED(name, level) JOIN(name, level)
#define NAME(name) NAMED(name, LEVEL)
#define EXPORT __attribute__((visibility("default")))

enum Status { DONE = 0, BAD_ROW = 1, BAD_TARGET = 2 };

typedef struct {
    const float *inputs;           /* (num_rows, channels, height, width) */
    const void *targets;           /* int64 classes or float32 values (num_rows) */
    int64_t num_rows;
} Data;

typedef struct {
    const Data *data;
    float *model;                  /* (num_parameters), trained in place */
    const int64_t *order;          /* (epochs, num_samples) rows */
    int64_t num_samples, epochs;
    int32_t first_layer;           /* the first layer that is trained */
    uint64_t bits;                 /* key of dropout's random numbers */
    double loss;                   /* answer: mean of the last epoch; NaN if it diverged */
} TrainJob;

typedef struct {
    const Data *data;
    const float *model;
    const int64_t *rows;           /* (num_samples) */
    int64_t num_samples;
    float *losses;                 /* answer (num_samples) */
    uint8_t *correct;              /* answer (num_samples); NULL for regression */
} EvaluateJob;

static int check_rows(const Network *n, const Data *data, const int64_t *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= data->num_rows) return BAD_ROW;
        if (n->loss == CROSS_ENTROPY) {
            const int64_t target = ((const int64_t *)data->targets)[rows[i]];
            if (target < 0 || target >= n->num_outputs) return BAD_TARGET;
        }
    }
    return DONE;
}

/* Bring up to eight samples into lanes; lanes beyond the last sample repeat the first one. */
static void gather(Network *n, const Data *data, const int64_t *rows, int64_t count)
{
    const Tensor *in = &n->steps[0].in;
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

static void convolution_forward(const Network *n, const Step *s, int train)
{
    if (is_winograd(s)) winograd_forward(n, s, train);
    else if (s->is.pool == 2) convolution_pooled(n, s, train);
    else convolution_plain(n, s);
}

/* Run the steps from `start` to before `end`. */
static void forward(Network *n, int32_t start, int32_t end, int train, uint64_t stream)
{
    for (int32_t i = start; i < end; i++) {
        Step *s = &n->steps[i];
        switch (s->is.kind) {
        case CONVOLUTION: convolution_forward(n, s, train); break;
        case LINEAR: linear_forward(n, s); break;
        case MAX_POOL: max_pool_forward(s); break;
        case AVERAGE_POOL: average_pool(s, 0); break;
        case RELU: relu_forward(s); break;
        case DROPOUT:
            s->stream = mixed(stream, (uint64_t)i);
            dropout_forward(s, train);
            break;
        }
    }
}

static void mask_linear_gradient(const Step *s)
{
    for (int64_t i = 0; i < s->out.channels * LANES; i += LANES) {
        const ints dead = (ints)(load(s->out.value + i) <= all(0));
        store(s->out.gradient + i, choose(dead, all(0), load(s->out.gradient + i)));
    }
}

/* Add the group's gradients of all steps from `first` on; `fused` updates linear weights at once. */
static void backward(Network *n, int32_t first, int num_samples, const Update *fused)
{
    for (int32_t i = n->num_steps - 1; i >= first; i--) {
        const Step *s = &n->steps[i];
        if (s->is.kind == CONVOLUTION)
            while (i > first && n->steps[i - 1].is.kind == CONVOLUTION) i--;
        const int with_inputs = i > first;
        switch (s->is.kind) {
        case CONVOLUTION:
            convolutions_backward(n, &n->steps[i], s, num_samples, with_inputs);
            break;
        case LINEAR:
            if (s->is.relu) mask_linear_gradient(s);
            if (with_inputs) linear_input_gradient(n, s);
            if (s->is.bias >= 0) linear_bias_gradient(n, s);
            linear_weight_gradient(n, s, fused);
            break;
        case MAX_POOL: max_pool_backward(s); break;
        case AVERAGE_POOL: average_pool(s, 1); break;
        case RELU: relu_backward(s); break;
        case DROPOUT: dropout_backward(s); break;
        }
    }
}

/* The first step that has parameters of a trained layer; the network's length if there is none. */
static int32_t first_step(const Network *n, int32_t first_layer)
{
    int32_t i = 0;
    while (i < n->num_steps && (n->steps[i].num_weights == 0 || n->steps[i].is.layer < first_layer))
        i++;
    return i;
}

/* Run all steps before `first`, which are not trained, or use their kept results. */
static void forward_frozen(Network *n, const Data *data, const int64_t *rows, int64_t count,
                           int32_t first, uint64_t stream, Frozen *frozen)
{
    const Tensor *reached = &n->steps[first < n->num_steps ? first : 0].in;
    if (recall_frozen(frozen, reached, rows, count)) return;
    gather(n, data, rows, count);
    forward(n, 0, first, 1, stream);
    keep_frozen(frozen, reached, rows, count);
}

/* Gradients of a batch's mean loss; return the sum of its losses. */
static double batch_gradient(Network *n, const Data *data, const int64_t *rows, int64_t count,
                             int32_t first, uint64_t stream, const Update *fused, Frozen *frozen)
{
    double loss = 0;
    transform_all_kernels(n);
    for (int32_t i = first; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        const int64_t start = fused && s->is.kind == LINEAR ? s->biases : s->weights;
        memset(n->gradient + start, 0,
               sizeof(float) * (size_t)(s->weights + s->num_weights - start));
    }
    for (int64_t start = 0; start < count; start += LANES) {
        const int64_t here = count - start < LANES ? count - start : LANES;
        const uint64_t mine = mixed(stream, (uint64_t)(start / LANES));
        forward_frozen(n, data, rows + start, here, first, mine, frozen);
        forward(n, first, n->num_steps, 1, mine);
        loss += loss_gradient(n, data->targets, rows + start, here, 1.0f / (float)count);
        backward(n, first, (int)here, fused);
    }
    return loss;
}

static void apply_updates(Network *n, int32_t first, const Update *u, int fused)
{
    for (int32_t i = first; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->num_weights == 0) continue;
        update_range(n, u, fused && s->is.kind == LINEAR ? s->biases : s->weights,
                     s->weights + s->num_weights);
    }
}

static int is_finite(const Network *n)
{
    for (int64_t i = 0; i < n->num_packed; i++)
        if (!isfinite(n->packed[i])) return 0;
    return 1;
}

static void train_one(Network *n, const Training *t, TrainJob *job)
{
    const int32_t first = first_step(n, job->first_layer);
    const int fused = t->batch_size <= LANES;
    const size_t bytes = sizeof(float) * (size_t)n->num_packed;
    int64_t step = 0;
    double loss = 0;
    /* In a single epoch no sample occurs twice. */
    const int64_t kept = job->epochs > 1 ? job->num_samples : 0;
    Frozen frozen = reserve_frozen(n, first, job->data->num_rows, kept);
    pack(n, job->model);
    memset(n->first_moment, 0, bytes);
    memset(n->second_moment, 0, bytes);
    for (int64_t e = 0; e < job->epochs; e++) {
        const int64_t *order = job->order + e * job->num_samples;
        loss = 0;
        for (int64_t i = 0; i < job->num_samples; i += t->batch_size) {
            const int64_t left = job->num_samples - i;
            const int64_t count = left < t->batch_size ? left : t->batch_size;
            const Update u = update_at(t, ++step);
            const uint64_t stream = mixed(job->bits, (uint64_t)step);
            loss += batch_gradient(n, job->data, order + i, count, first, stream,
                                   fused ? &u : NULL, &frozen);
            apply_updates(n, first, &u, fused);
        }
    }
    release_frozen(&frozen);
    unpack(n, n->packed, job->model);
    job->loss = is_finite(n) ? loss / (double)job->num_samples : NAN;
}

static void evaluate_one(Network *n, const EvaluateJob *job)
{
    pack(n, job->model);
    transform_all_kernels(n);
    for (int64_t i = 0; i < job->num_samples; i += LANES) {
        const int64_t left = job->num_samples - i, count = left < LANES ? left : LANES;
        gather(n, job->data, job->rows + i, count);
        forward(n, 0, n->num_steps, 0, 0);
        losses_of(n, job->data->targets, job->rows + i, count, job->losses + i,
                  job->correct ? job->correct + i : NULL);
    }
}

EXPORT Network *NAME(coterie_create_)(const Operation *operations, int32_t count, const int64_t input[3],
                                 int32_t loss)
{
    return plan(operations, count, input, loss);
}

EXPORT void NAME(coterie_free_)(Network *n) { release(n); }

EXPORT int NAME(coterie_train_)(Network *n, const Training *training, TrainJob *jobs, int64_t count)
{
    for (TrainJob *job = jobs; job < jobs + count; job++) {
        const int bad = check_rows(n, job->data, job->order, job->num_samples * job->epochs);
        if (bad) return bad;
        train_one(n, training, job);
    }
    return DONE;
}

EXPORT int NAME(coterie_evaluate_)(Network *n, const EvaluateJob *jobs, int64_t count)
{
    for (const EvaluateJob *job = jobs; job < jobs + count; job++) {
        const int bad = check_rows(n, job->data, job->rows, job->num_samples);
        if (bad) return bad;
        evaluate_one(n, job);
    }
    return DONE;
}

/* The gradient of the mean loss of `count` rows, for comparison with other trainers. */
EXPORT int NAME(coterie_gradient_)(Network *n, const Data *data, const float *model,
                                   const int64_t *rows, int64_t count, float *gradient)
{
    const int bad = check_rows(n, data, rows, count);
    if (bad) return bad;
    Frozen nothing = {0};
    pack(n, model);
    batch_gradient(n, data, rows, count, first_step(n, 0), 0, NULL, &nothing);
    unpack(n, n->gradient, gradient);
    return DONE;
}

/* Do multiply-adds as fast as possible, for comparison with the speed of training; see peak.h. */
EXPORT int64_t NAME(coterie_multiply_adds_)(int64_t rounds, float *result)
{
    return multiply_adds(rounds, result);
}
