/** The bounds of what governs use: limits, policies, proxies. */
export const governanceLimits = {
  /** Limits of one tenant, models that one names, and the largest value of one. */
  usageLimitsMax: 2_000,
  usageLimitModelsMax: 100,
  usageLimitValueMax: 1_000_000_000,
  /** What was taken of a limit and not used for so long is given back; how often that is looked at. */
  usageShareIdleMs: 10_000,
  usageShareCheckMs: 5_000,
  /** How often another process's changes of limits are looked for. */
  usageLimitPollMs: 1_000,
  /** Of a result that two models sanitise: what the quarantined one is shown, and what is said of it in the end. */
  sanitiserResultCharsMax: 100_000,
  sanitisedCharsMax: 4_000,
  /** One question with its options, the purpose that it serves, and one answer of a model. */
  sanitiserQuestionCharsMax: 1_000,
  sanitiserOptionsMax: 20,
  sanitiserOptionCharsMax: 300,
  sanitiserPurposeCharsMax: 4_000,
  sanitiserOutputTokensMax: 2_000,
  sanitiserTimeoutMs: 60_000,
  /** Summaries that are kept for the next time. */
  sanitisedCachedMax: 1_000,
} as const
