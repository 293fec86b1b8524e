/** Bounds of the command line as a client of a remote server. */
export const remoteLimits = {
  /** How long a connection may take, TLS included. */
  remoteConnectMs: 15_000,
  /** How long it may take to find out whether a port speaks TLS. */
  remoteTlsProbeMs: 3_000,
  /** Time limit for a request that needs no work: metadata, tokens, the end of a session. */
  remoteReplyMs: 30_000,
  /** How long the process waits for the end of a session before it exits. */
  remoteLeaveMs: 2_000,
  /** Requests of one client on standard input that are in progress at once; more are not read. */
  remoteRequestsMax: 64,
  /** An answer carries its JSON twice, once escaped. */
  remoteAnswerBytesMax: 64 * 1024 * 1024,
  remoteMetadataBytesMax: 1024 * 1024,
  /** Pauses between attempts to listen for notifications of the server. */
  remoteListenPauseMs: 1_000,
  remoteListenPauseMsMax: 30_000,
  /** How long a person may take to sign in. */
  signInMs: 5 * 60_000,
  /** Signing in by a code: the longest wait and the longest pause between two requests that a server can ask for. */
  deviceSignInMsMax: 30 * 60_000,
  devicePauseMsMax: 60_000,
  /** How long before its expiry a token is renewed. */
  tokenRenewMs: 30_000,
  /** How long a command waits for another one that renews the same sign-in. */
  loginLockMs: 40_000,
  loginFileBytesMax: 64 * 1024,
} as const
