/** Every bound the program keeps, in one place. A caller that passes one is refused with a clear error. */
export const limits = {
  /** One JSON-RPC message or HTTP body. */
  messageBytesMax: 4 * 1024 * 1024,
  /** Nesting of tool arguments. */
  argumentDepthMax: 32,
  /** Values in the arguments of one call, at all levels together: some work is done for each before a tool sees them. */
  argumentValuesMax: 20_000,
  /** The answer of one tool, as JSON text. */
  answerBytesMax: 8 * 1024 * 1024,
  /** Calls under way for one connection; more are answered ERR_BUSY. */
  callsInFlightPerConnectionMax: 1024,
  /** Write transactions that wait for a commit; more are answered ERR_BUSY. */
  writeQueueMax: 20_000,
  /** Write transactions in one commit. */
  commitBatchMax: 256,
  /** Read records that wait to be written; more make the caller wait. */
  readRecordsPendingMax: 8_192,
  /** Read records written in one commit, and in one log entry. */
  readRecordsBatchMax: 128,
  /** The text of a log entry for several reads; one that has more to say alone is an entry of its own. */
  readsEntryCharsMax: 128 * 1024,
  /** The longest time a read record waits before it is committed. */
  readRecordDelayMs: 50,
  toolListPageSize: 200,
  /** HTTP sessions over all identities, and of one; past either, an idle one is ended to make room. */
  httpSessionsMax: 1_000,
  httpSessionsPerIdentityMax: 100,
  httpSessionIdleMs: 30 * 60_000,
  /** A session in which nothing came after `initialize`. */
  httpSessionUnusedMs: 60_000,
  /** Request line and headers of one HTTP request. */
  httpHeaderBytesMax: 16 * 1024,
  /** Time that a client has to send all headers, and the whole request; a slower one is answered 408. */
  httpHeadersTimeoutMs: 10_000,
  httpRequestTimeoutMs: 60_000,
  /** How often slow clients are looked for. */
  httpTimeoutCheckMs: 2_000,
  httpKeepAliveMs: 65_000,
  httpConnectionsMax: 4_096,
  /** What is still read of a refused body, so that the client sees the refusal. */
  httpLingerMs: 1_000,
  shutdownGraceMs: 5_000,
  exportPageMax: 1_000,
  metadataBytesMax: 65_536,
  /** One SKILL.md; a longer one is reported as a problem and skipped. */
  skillManifestBytesMax: 256 * 1024,
  skillFrontmatterCharsMax: 16 * 1024,
  skillDescriptionCharsMax: 2_048,
  skillCapabilitiesMax: 32,
  skillCapabilityCharsMax: 64,
  /** Skills read from one root; the rest are reported as a problem. */
  skillsPerRootMax: 500,
  /** What the skills extension of MCP allows for one skill: files, and bytes over all of them. */
  skillFilesMax: 512,
  skillBytesMax: 16 * 1024 * 1024,
  skillFileBytesMax: 2 * 1024 * 1024,
  skillFolderDepthMax: 8,
  /** An API key that is revoked by another process stops working within this time. */
  apiKeyCacheMs: 1_000,
  apiKeyCacheMax: 1_000,
  /** `last_used_at` of a key is written at most this often. */
  apiKeyTouchMs: 60_000,
  apiKeyLifetimeMsMax: 3_660 * 24 * 3_600_000,
  apiKeyListMax: 1_000,
  /** Buckets of the rate limiter, over all callers and categories. */
  rateBucketsMax: 10_000,
  /** A client's configuration file that `castellan import` reads. */
  importFileBytesMax: 4 * 1024 * 1024,
} as const
