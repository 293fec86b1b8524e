/** Bounds of the command line as a client of a server elsewhere. */
export const remoteLimits = {
  /** How long a connection may take, TLS included. */
  remoteConnectMs: 15_000,
  /** How long a request may take whose answer needs no work: metadata, tokens, the end of a session. */
  remoteReplyMs: 30_000,
  /** How long the end of a session is waited for before the process goes. */
  remoteLeaveMs: 2_000,
  /** Requests of one client on standard input that are under way at once; more are not read. */
  remoteRequestsMax: 64,
  /** An answer carries its JSON twice, once escaped. */
  remoteAnswerBytesMax: 64 * 1024 * 1024,
  remoteMetadataBytesMax: 1024 * 1024,
  /** Pauses between attempts to listen for what the server announces. */
  remoteListenPauseMs: 1_000,
  remoteListenPauseMsMax: 30_000,
  /** How long a person may take to sign in. */
  signInMs: 5 * 60_000,
  /** How long before its end a token is renewed. */
  tokenRenewMs: 30_000,
  /** How long a command waits for another one that renews the same sign-in. */
  loginLockMs: 40_000,
  loginFileBytesMax: 64 * 1024,
} as const
