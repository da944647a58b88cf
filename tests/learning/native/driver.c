/* Runs networks of any description under the compiler's sanitizers.
 *
 * Every array that belongs to the caller is allocated in its exact size, so that one value read or
 * written beside it ends the program. A description from standard input is, in whole numbers but
 * for rates and the like:
 *   operations loss channels height width parameters optimizer batch samples epochs first_layer decay
 *   and for each operation the fields of Operation in their order.
 * For each one a line is printed: "refused", or the training loss and the sum of the evaluation's.
 */
#include <inttypes.h>
#include <stdio.h>

#include "kernels.c"

#define MOST_OPERATIONS 2048

static uint64_t number_drawn;

/* A value from -1 to 1. */
static float drawn(void)
{
    return (float)((double)(mixed(7, number_drawn++) >> 11) / (double)(1ll << 52) - 1);
}

static void *exactly(int64_t count, size_t size)
{
    void *block = malloc((size_t)count * size);
    if (!block) exit(3);
    return block;
}

static float *values(int64_t count)
{
    float *all_values = exactly(count, sizeof(float));
    for (int64_t i = 0; i < count; i++) all_values[i] = drawn();
    return all_values;
}

static int64_t number(void)
{
    int64_t value;
    if (scanf("%" SCNd64, &value) != 1) exit(4);
    return value;
}

static void pair(int32_t to[2])
{
    to[0] = (int32_t)number();
    to[1] = (int32_t)number();
}

static float fraction(void)
{
    float value;
    if (scanf("%f", &value) != 1) exit(4);
    return value;
}

static Operation operation(void)
{
    Operation o = {.kind = (int32_t)number(), .outputs = (int32_t)number()};
    pair(o.kernel);
    pair(o.stride);
    pair(o.padding);
    o.relu = (int32_t)number();
    o.pool = (int32_t)number();
    o.count_padding = (int32_t)number();
    o.layer = (int32_t)number();
    o.whole_channels = (int32_t)number();
    o.rate = fraction();
    o.weight = number();
    o.bias = number();
    o.source = (int32_t)number();
    o.other = (int32_t)number();
    o.count = (int32_t)number();
    o.skipped_row = (int32_t)number();
    o.is_flat = (int32_t)number();
    o.epsilon = fraction();
    o.momentum = fraction();
    o.slope = fraction();
    o.mean = number();
    o.variance = number();
    return o;
}

/* Values, or the numbers of rows of an embedding. */
static void *inputs_of(const Network *n, int64_t samples)
{
    const int64_t count = samples * n->input[0] * n->input[1] * n->input[2];
    if (n->steps[0].is.kind != EMBEDDING) return values(count);
    int64_t *tokens = exactly(count, sizeof(int64_t));
    for (int64_t i = 0; i < count; i++) tokens[i] = i * 5 % n->steps[0].is.count;
    return tokens;
}

/* A model whose running variances are not negative. */
static float *model_of(const Network *n, int64_t size)
{
    float *model = values(size);
    for (int32_t i = 0; i < n->num_steps; i++)
        for (int64_t f = 0; n->steps[i].is.kind == BATCH_NORM && f < n->steps[i].row; f++)
            model[n->steps[i].is.variance + f] = 0.5f;
    return model;
}

/* Gradients, a training and an evaluation on samples of the network's own shape. */
static void run(Network *n, int64_t size, const Training *t, int64_t samples, int64_t epochs,
                int32_t first_layer)
{
    const Data data = {.inputs = inputs_of(n, samples),
                       .targets = n->loss == CROSS_ENTROPY ? exactly(samples, sizeof(int64_t))
                                                           : (void *)values(samples * n->num_outputs),
                       .num_rows = samples};
    int64_t *order = exactly(samples * epochs, sizeof(int64_t));
    for (int64_t i = 0; i < samples * epochs; i++) order[i] = (i * 7 + i / samples) % samples;
    if (n->loss == CROSS_ENTROPY)
        for (int64_t i = 0; i < samples; i++) ((int64_t *)data.targets)[i] = i % n->num_outputs;
    float *model = model_of(n, size), *gradient = values(size);
    float *losses = exactly(samples, sizeof(float));
    float *outputs = exactly(samples * n->num_outputs, sizeof(float));
    uint8_t *correct = n->loss == CROSS_ENTROPY ? exactly(samples, 1) : NULL;
    TrainJob training = {.data = &data,
                         .model = model,
                         .order = order,
                         .num_samples = samples,
                         .epochs = epochs,
                         .first_layer = first_layer,
                         .bits = 5};
    const EvaluateJob evaluation = {.data = &data,
                                    .model = model,
                                    .rows = order,
                                    .num_samples = samples,
                                    .losses = losses,
                                    .correct = correct,
                                    .outputs = outputs};
    if (NAME(coterie_gradient_)(n, &data, model, order, samples, gradient)) exit(5);
    if (NAME(coterie_train_)(n, t, &training, 1)) exit(5);
    if (NAME(coterie_evaluate_)(n, &evaluation, 1)) exit(5);
    order[samples - 1] = samples;
    if (NAME(coterie_evaluate_)(n, &evaluation, 1) != BAD_ROW) exit(6);
    if (NAME(coterie_train_)(n, t, &training, 1) != BAD_ROW) exit(6);
    double sum = 0;
    for (int64_t i = 0; i < samples; i++) sum += (double)losses[i] + (correct ? correct[i] : 0);
    for (int64_t i = 0; i < size; i++) sum += 0 * (double)(gradient[i] + model[i]);
    printf("%g %g\n", training.loss, sum);
    free((void *)data.inputs);
    free((void *)data.targets);
    free(order);
    free(model);
    free(gradient);
    free(losses);
    free(outputs);
    free(correct);
}

int main(void)
{
    int64_t count;
    while (scanf("%" SCNd64, &count) == 1) {
        if (count < 0 || count > MOST_OPERATIONS) return 4;
        const int32_t loss = (int32_t)number();
        int64_t input[3];
        for (int i = 0; i < 3; i++) input[i] = number();
        const int64_t size = number();
        Training t = {.optimizer = (int32_t)number(), .batch_size = (int32_t)number()};
        t.learning_rate = 0.01f;
        t.momentum = t.beta1 = 0.9f;
        t.beta2 = 0.999f;
        t.epsilon = 1e-8f;
        const int64_t samples = number(), epochs = number();
        const int32_t first_layer = (int32_t)number();
        t.weight_decay = fraction();
        Operation *operations = exactly(count, sizeof(Operation));
        for (int64_t i = 0; i < count; i++) operations[i] = operation();
        const int64_t most_samples = most(samples, t.batch_size);
        Network *n = NAME(coterie_create_)(operations, (int32_t)count, input, loss, most_samples,
                                           t.weight_decay == 0);
        free(operations);
        if (n) run(n, size, &t, samples, epochs, first_layer);
        else puts("refused");
        NAME(coterie_free_)(n);
    }
    return 0;
}
