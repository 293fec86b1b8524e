/** What bounds policies, the trust of contexts, and approvals. */
export const policyLimits = {
  /** Policies of a tenant of both kinds, conditions of one, and the length of a condition. */
  toolPoliciesMax: 5_000,
  /** Warnings of one answer about rules that name something that no longer exists. */
  staleReferencesMax: 20,
  policyConditionsMax: 32,
  policyKeyCharsMax: 512,
  policyValueCharsMax: 4_096,
  policyNoteCharsMax: 2_000,
  policyPathStepsMax: 32,
  /** Size of a compiled regular expression. */
  policyPatternSizeMax: 10_000,
  /** Values that a path with wildcards reads; with more, the condition counts as the stricter outcome. */
  policyValuesMax: 10_000,
  /** Characters of one value that a pattern reads. */
  policyTextCharsMax: 1_000_000,
  /** How often changes by other processes are checked. */
  policyVersionPollMs: 1_000,
  /** Contexts whose trust is remembered in memory. */
  trustCacheMax: 50_000,
  /** How long a connection is taken to be open after its last call, and how often it is noted that an untrusted one is in use. */
  contextLiveMs: 40 * 60_000,
  contextNotedMs: 5 * 60_000,
  /** How often untrusted contexts that cannot come back are removed, how many in one transaction, and how long an expired key counts. */
  trustPruneMs: 600_000,
  trustPruneMax: 500,
  trustPruneKeyMs: 30 * 24 * 60 * 60 * 1_000,
  /** How long it is remembered what a session over standard input has read. After that it counts as untrusted. */
  lineSessionMs: 90 * 24 * 60 * 60 * 1_000,
  /** Arguments repeated in a refusal, as JSON. */
  deniedInputBytesMax: 4_096,
  /** Log entries that one simulation reads, and changes that it reports. */
  simulatedEntriesMax: 5_000,
  simulatedChangesMax: 200,
  /** Requests to models whose texts it reads for arguments, and how long before and after the calls they may have started. */
  simulatedInteractionsMax: 1_000,
  simulatedInteractionsMs: 60 * 60_000,
  /** Tasks or notes of one answer whose trust is checked. */
  carriedItemsMax: 1_000,
  /** Pending approvals of one caller, and the displayed length of a call's arguments. */
  approvalsPendingMax: 200,
  approvalArgumentsCharsMax: 16_384,
  approvalTextCharsMax: 4_096,
  approvalMembersMax: 200,
  approvalDepthMax: 12,
  approvalNoteCharsMax: 2_000,
  /** Retention of an approval after it has ended. */
  approvalRetentionMs: 30 * 24 * 60 * 60 * 1_000,
  /** How long the person at the client has to answer. */
  approvalAskMs: 5 * 60 * 1_000,
  /** How often one step of a run may ask again after a crash used up its approval. */
  approvalRoundsMax: 4,
} as const
