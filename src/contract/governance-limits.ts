/** Bounds of limits, policies and proxies. */
export const governanceLimits = {
  /** Limits of one tenant, models that one names, and the largest value of one. */
  usageLimitsMax: 2_000,
  usageLimitModelsMax: 100,
  usageLimitValueMax: 1_000_000_000,
  /** When to try again if requests in progress have reserved what is left of a limit. */
  usageRetryMs: 1_000,
  /** Unused shares of a limit are returned after this time; how often that is checked. */
  usageShareIdleMs: 10_000,
  usageShareCheckMs: 5_000,
  /** How often limits that another process changed are checked. */
  usageLimitPollMs: 1_000,
  /** Sanitising: the part of a result that the quarantined model sees, and the length of the summary. */
  sanitiserResultCharsMax: 100_000,
  sanitisedCharsMax: 4_000,
  /** Sanitising: one question with its options, the purpose that it serves, and one answer of a model. */
  sanitiserQuestionCharsMax: 1_000,
  sanitiserOptionsMax: 20,
  sanitiserOptionCharsMax: 300,
  sanitiserPurposeCharsMax: 4_000,
  sanitiserOutputTokensMax: 2_000,
  sanitiserTimeoutMs: 60_000,
  /** Cached summaries. */
  sanitisedCachedMax: 1_000,
} as const
