/* Makes every fsync and fdatasync of the process take SLOW_FSYNC_MS longer, to stand for a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*sync_call)(int);

static void wait_longer(void) {
  const char *text = getenv("SLOW_FSYNC_MS");
  double ms = text ? atof(text) : 0;
  if (ms <= 0) return;
  struct timespec left = {(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000L};
  while (nanosleep(&left, &left) != 0) {
  }
}

int fsync(int file) {
  wait_longer();
  return ((sync_call)dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
  wait_longer();
  return ((sync_call)dlsym(RTLD_NEXT, "fdatasync"))(file);
}
