/* Which of the compiled levels this processor can run. */
#define EXPORT __attribute__((visibility("default")))

/* Return the name of the best level that was compiled and that this processor has. */
EXPORT const char *coterie_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
#ifdef HAS_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return "v3";
#endif
#ifdef HAS_V2
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) return "v2";
#endif
#endif
    return "generic";
}
