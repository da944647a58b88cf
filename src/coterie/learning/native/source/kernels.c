/* One translation unit, compiled once for every level of processor; LEVEL names the level.
 *
 * A call is a whole local training of a peer, or a whole evaluation: nothing goes back to the
 * caller in between, and the results depend on the arguments alone.
 */
#include <stdlib.h>

#include "loss.h"
#include "packing.h"
#include "passes.h"
#include "peak.h"
#include "plan.h"

#define JOIN(a, b) a##b
#define NAMED(name, level) JOIN(name, level)
#define NAME(name) NAMED(name, LEVEL)
#define EXPORT __attribute__((visibility("default")))

enum Status { DONE = 0, BAD_ROW, BAD_TARGET, SINGLE_VALUE, BAD_TOKEN, LARGE_BATCH };

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
    uint8_t *correct;              /* answer (num_samples); NULL if there are no classes */
    float *outputs;                /* answer (num_samples, num_outputs); NULL: not wanted */
} EvaluateJob;

static int check_tokens(const Network *n, const Data *data, const int64_t *rows, int64_t count)
{
    const Operation *first = &n->steps[0].is;
    const int64_t *tokens = (const int64_t *)(const void *)data->inputs;
    if (first->kind != EMBEDDING) return DONE;
    for (int64_t i = 0; i < count; i++)
        for (int64_t t = 0; t < n->input[0]; t++) {
            const int64_t token = tokens[rows[i] * n->input[0] + t];
            if (token < 0 || token >= first->count) return BAD_TOKEN;
        }
    return DONE;
}

static int check_rows(const Network *n, const Data *data, const int64_t *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= data->num_rows) return BAD_ROW;
        if (n->loss == CROSS_ENTROPY) {
            const int64_t target = ((const int64_t *)data->targets)[rows[i]];
            if (target < 0 || target >= n->num_outputs) return BAD_TARGET;
        }
    }
    return check_tokens(n, data, rows, count);
}

/* Whether batch normalisation gets all batches at once, each with more than one value. */
static int check_batches(const Network *n, int64_t batch_size, int64_t num_samples)
{
    if (!n->whole_batch || num_samples == 0) return DONE;
    const int64_t largest = batch_size < num_samples ? batch_size : num_samples;
    if (num_groups_of(largest) > n->num_groups) return LARGE_BATCH;
    const int64_t last = num_samples % batch_size ? num_samples % batch_size : batch_size;
    for (int32_t i = 0; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->is.kind != BATCH_NORM) continue;
        const Rows rows = rows_of(s);
        if (last * rows.height * rows.width == 1) return SINGLE_VALUE;
    }
    return DONE;
}

/* Gradients of a batch's mean loss; return the sum of its losses. */
static double batch_gradient(Network *n, const Data *data, const int64_t *rows, int64_t count,
                             int32_t first, uint64_t stream, const Update *fused, Frozen *frozen)
{
    const int64_t together = n->num_groups * LANES;
    double loss = 0;
    transform_all_kernels(n);
    for (int32_t i = first; i < n->num_steps; i++) {
        const Step *s = &n->steps[i];
        if (s->is.kind == EMBEDDING) continue; /* cleared row by row */
        const int64_t start = fused && s->is.kind == LINEAR ? s->biases : s->weights;
        memset(n->gradient + start, 0,
               sizeof(float) * (size_t)(s->weights + s->num_weights - start));
    }
    for (int64_t start = 0; start < count; start += together) {
        const Samples b = {.rows = rows + start,
                           .count = count - start < together ? count - start : together,
                           .stream = stream,
                           .first_group = start / LANES,
                           .train = 1};
        forward_frozen(n, data, first, &b, frozen);
        forward(n, first, n->num_steps, &b);
        for (int64_t g = 0; g < num_groups_of(b.count); g++) {
            const Tensor last = tensor_at(n->steps[n->num_steps - 1].out, g);
            loss += loss_gradient(n, &last, data->targets, b.rows + g * LANES,
                                  lanes_used(b.count, g), 1.0f / (float)count);
        }
        backward(n, first, &b, fused);
    }
    return loss;
}

static void apply_updates(Network *n, int32_t first, const Update *u, int fused)
{
    for (int32_t i = first; i < n->num_steps; i++) {
        Step *s = &n->steps[i];
        if (s->num_weights == 0 || s->is.layer < n->first_layer) continue;
        if (s->is.kind == EMBEDDING) {
            update_embedding(n, s, u);
            continue;
        }
        update_range(n, u, fused && s->is.kind == LINEAR ? s->biases : s->weights,
                     s->weights + s->num_weights);
    }
}

static void clear_embeddings(Network *n)
{
    for (int32_t i = 0; i < n->num_steps; i++)
        if (n->steps[i].is.kind == EMBEDDING) clear_embedding(n, &n->steps[i]);
}

static int is_finite(const Network *n)
{
    for (int64_t i = 0; i < n->num_packed; i++)
        if (!isfinite(n->packed[i])) return 0;
    return 1;
}

static void train_one(Network *n, const Training *t, TrainJob *job)
{
    const int32_t first = find_trained(n, job->first_layer);
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
    clear_embeddings(n);
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
        const Samples b = {.rows = job->rows + i, .count = count};
        gather_all(n, job->data, &b);
        forward(n, 0, n->num_steps, &b);
        losses_of(n, job->data->targets, job->rows + i, count, job->losses + i,
                  job->correct ? job->correct + i : NULL);
        if (job->outputs) copy_outputs(n, count, job->outputs + i * n->num_outputs);
    }
}

EXPORT Network *NAME(coterie_create_)(const Operation *operations, int32_t count,
                                      const int64_t input[3], int32_t loss, int64_t batch_size,
                                      int32_t leaves_out)
{
    return plan(operations, count, input, loss, batch_size, leaves_out);
}

EXPORT int64_t NAME(coterie_num_outputs_)(const Network *n) { return n->num_outputs; }

EXPORT void NAME(coterie_free_)(Network *n) { release(n); }

EXPORT int NAME(coterie_train_)(Network *n, const Training *training, TrainJob *jobs, int64_t count)
{
    for (TrainJob *job = jobs; job < jobs + count; job++) {
        int bad = check_rows(n, job->data, job->order, job->num_samples * job->epochs);
        if (!bad) bad = check_batches(n, training->batch_size, job->num_samples);
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
    int bad = check_rows(n, data, rows, count);
    if (!bad) bad = check_batches(n, count, count);
    if (bad) return bad;
    Frozen nothing = {0};
    pack(n, model);
    clear_embeddings(n);
    batch_gradient(n, data, rows, count, find_trained(n, 0), 0, NULL, &nothing);
    unpack(n, n->gradient, gradient);
    return DONE;
}

/* Use vectors of 16 floats, where there are such, or not; return whether they were used. The results
 * are the same bits. */
EXPORT int32_t NAME(coterie_widen_)(int32_t on)
{
#if HAS_WIDE
    const int32_t was = has_wide;
    has_wide = on && find_wide();
    return was;
#else
    (void)on;
    return 0;
#endif
}

/* Do multiply-adds as fast as possible, for comparison with the speed of training; see peak.h. */
EXPORT int64_t NAME(coterie_multiply_adds_)(int64_t rounds, float *result)
{
    return multiply_adds(rounds, result);
}
