/** What bounds policies, the trust of contexts, and approvals. */
export const policyLimits = {
  /** Policies of a tenant of both kinds, the conditions of one, and what a condition may say. */
  toolPoliciesMax: 5_000,
  policyConditionsMax: 32,
  policyKeyCharsMax: 512,
  policyValueCharsMax: 4_096,
  policyNoteCharsMax: 2_000,
  policyPathStepsMax: 32,
  /** Size of a compiled regular expression. */
  policyPatternSizeMax: 10_000,
  /** Values that a path with wildcards looks at; more of them decide as the careful answer does. */
  policyValuesMax: 10_000,
  /** Characters of one value that a pattern looks at. */
  policyTextCharsMax: 1_000_000,
  /** How often what other processes changed is looked for. */
  policyVersionPollMs: 1_000,
  /** Contexts whose trust is remembered in memory. */
  trustCacheMax: 50_000,
  /** Arguments that a refusal repeats, as JSON. */
  deniedInputBytesMax: 4_096,
  /** Entries of the log that one simulation looks at, and changes that it answers. */
  simulatedEntriesMax: 5_000,
  simulatedChangesMax: 200,
  /** Tasks or notes of one answer whose trust is looked at. */
  carriedItemsMax: 1_000,
  /** Approvals that one caller may have pending, and what of the arguments of a call is shown to whom answers. */
  approvalsPendingMax: 200,
  approvalArgumentsCharsMax: 16_384,
  approvalTextCharsMax: 4_096,
  approvalMembersMax: 200,
  approvalDepthMax: 12,
  approvalNoteCharsMax: 2_000,
  /** How long an approval is kept after it is over. */
  approvalRetentionMs: 30 * 24 * 60 * 60 * 1_000,
  /** How long the person at the client is waited for. */
  approvalAskMs: 5 * 60 * 1_000,
  /** How often one step of a run may ask anew, after a crash used what was approved. */
  approvalRoundsMax: 4,
} as const
