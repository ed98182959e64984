/* Syncing off: for measuring what it costs, never for mail. Preloaded into one relay; a success without a sync. */
int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
int syncfs(int fd) { (void)fd; return 0; }
int sync_file_range(int fd, long long from, long long count, unsigned flags) {
  (void)fd; (void)from; (void)count; (void)flags;
  return 0;
}
