/** Every bound the program keeps, in one place. A caller that passes one is refused with a clear error. */
export const limits = {
  /** One JSON-RPC message or HTTP body. */
  messageBytesMax: 4 * 1024 * 1024,
  /** Nesting of tool arguments. */
  argumentDepthMax: 32,
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
  /** Read records written in one commit. */
  readRecordsBatchMax: 64,
  /** The longest time a read record waits before it is committed. */
  readRecordDelayMs: 50,
  toolListPageSize: 200,
  httpSessionsMax: 1_000,
  httpSessionIdleMs: 30 * 60_000,
  shutdownGraceMs: 5_000,
  exportPageMax: 1_000,
  metadataBytesMax: 65_536,
} as const
