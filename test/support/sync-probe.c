/*
 * Writes down, in order, every sync of a file and every write to standard output: a line each in SYNC_PROBE_LOG, made
 * before the call returns to the program. While the file SYNC_PROBE_FAIL exists, syncs of a write-ahead log fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef int (*sync_call)(int);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*writev_call)(int, const struct iovec *, int);

static void note(const char *what, const char *path) {
  const char *log = getenv("SYNC_PROBE_LOG");
  int file = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
  if (file < 0) return;
  char line[4200];
  int length = snprintf(line, sizeof line, "%s %s\n", what, path);
  ((write_call)dlsym(RTLD_NEXT, "write"))(file, line, length);
  close(file);
}

static int watched_sync(const char *name, int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  const char *fail = getenv("SYNC_PROBE_FAIL");
  int is_log = length > 4 && strcmp(path + length - 4, "-wal") == 0;
  if (is_log && fail && access(fail, F_OK) == 0) {
    note("failed", path);
    errno = EIO;
    return -1;
  }
  int result = ((sync_call)dlsym(RTLD_NEXT, name))(file);
  if (result == 0) note("synced", path);
  return result;
}

int fsync(int file) { return watched_sync("fsync", file); }
int fdatasync(int file) { return watched_sync("fdatasync", file); }

ssize_t write(int file, const void *bytes, size_t count) {
  if (file == 1) note("answered", "");
  return ((write_call)dlsym(RTLD_NEXT, "write"))(file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  if (file == 1) note("answered", "");
  return ((writev_call)dlsym(RTLD_NEXT, "writev"))(file, parts, count);
}
