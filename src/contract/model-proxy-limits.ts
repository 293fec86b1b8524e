/** Bounds of requests to models through a proxy. They carry images and documents, so they may be large. */
export const modelProxyLimits = {
  modelRequestBytesMax: 32 * 1024 * 1024,
  modelRequestDepthMax: 128,
  /** Lists of tokens to embed are long; names of members cost a parser far more than their values. */
  modelRequestValuesMax: 1_000_000,
  modelRequestMembersMax: 50_000,
  /** A whole answer, and one event of a stream, or the part of it that is held until a call is judged. */
  modelAnswerBytesMax: 64 * 1024 * 1024,
  modelEventBytesMax: 8 * 1024 * 1024,
  /** Of an answer that is judged: its nesting, values and members, and the calls in it. */
  modelAnswerDepthMax: 128,
  modelAnswerValuesMax: 1_000_000,
  modelAnswerMembersMax: 250_000,
  modelAnswerCallsMax: 1_000,
  /** Bytes of a stream that are buffered in case their text must be counted; beyond this they are counted at once. */
  modelUncountedBytesMax: 256 * 1024,
  /**
   * What one answer is billed for at most, for each second, if it breaks off and may have a part that nobody saw. Models that hide
   * their reasoning write a few hundred tokens a second, and this leaves room for faster ones.
   */
  modelOutputTokensPerSecondMax: 1_000,
  /** Characters of the beginning of a conversation that identify it. */
  conversationBeginningCharsMax: 32 * 1024,
  /** Stored answers to which later requests may refer. */
  responseChainsMax: 10_000,
  /** Their items, to which requests may refer one by one; of one answer at most so many, with ids of at most so many characters. */
  responseItemsMax: 50_000,
  responseItemsOfAnswerMax: 1_000,
  responseItemIdCharsMax: 256,
  /** Parts of answers that only their provider can read, which are known to have passed. */
  opaquePartsMax: 100_000,
  /** The arguments of a call that are remembered with it. */
  responseCallCharsMax: 4_096,
  /** The name of a tool in a decision, as a model wrote it. */
  judgedToolCharsMax: 128,
  /** Connections to one upstream. More requests wait. */
  modelConnectionsMax: 512,
  modelConnectMs: 10_000,
  modelKeepAliveMs: 30_000,
  /** Of a connection that an upstream says it will end, this much earlier. */
  modelKeepAliveMarginMs: 1_000,
  modelAnswerHeadBytesMax: 32 * 1024,
  /** A proxy that another process edited may be outdated for at most this long. */
  modelProxyCacheMs: 1_000,
  modelProxyCacheMax: 1_000,
  /** A stored body: how much of it is read, how much is stored, and how much of all bodies may wait to be written. */
  interactionBodyReadMax: 1024 * 1024,
  interactionBodyCharsMax: 256 * 1024,
  interactionBodiesPendingMax: 32 * 1024 * 1024,
  /** Stored secrets of a tenant that are redacted in bodies, and the shortest of them. */
  redactedSecretsMax: 5_000,
  redactedSecretCharsMin: 8,
  /** How long and for how many tenants opened secrets are remembered for redaction. */
  openedSecretsIdleMs: 60_000,
  openedSecretTenantsMax: 16,
  /** Labels of callers, and names of models. */
  interactionLabelCharsMax: 128,
  interactionModelCharsMax: 256,
  /** Decisions stored with one interaction: a history of many results has one each, and the first explain the outcome. */
  interactionDecisionsMax: 100,
  /** How often old interactions are pruned, and how many in one transaction. */
  interactionPruneMs: 600_000,
  interactionPruneMax: 1_000,
  /** Spans that wait for a collector, spans in one request, and the longest wait of the first of them. */
  otlpPendingMax: 4_096,
  otlpBatchMax: 512,
  otlpDelayMs: 1_000,
  /** Time limit for an answer of the collector, and how much of it is read. */
  otlpTimeoutMs: 10_000,
  otlpAnswerBytesMax: 64 * 1024,
  /** Attempts to send spans; the pause doubles each time, and is at most this if the collector asks for one. */
  otlpTriesMax: 6,
  otlpRetryMs: 1_000,
  otlpRetryMaxMs: 30_000,
  /** Time limit for the remaining spans when the program ends. */
  otlpCloseMs: 3_000,
  /** Live virtual keys of one author, how many are listed, and entries in each of its restrictions. */
  virtualKeysOfAuthorMax: 500,
  virtualKeyListMax: 1_000,
  virtualKeyGrantsMax: 100,
  /** Keys of providers that one author has at a time, and how many are listed. A change elsewhere is seen within this time. */
  providerKeysOfAuthorMax: 200,
  providerKeyListMax: 1_000,
  providerKeyCacheMs: 1_000,
  providerKeyCharsMax: 1_024,
  /** Rules for models of one organisation; how long one that another process changed is used as before. */
  optimizationRulesMax: 200,
  optimizationRuleCacheMs: 1_000,
  optimizationRuleTenantsMax: 1_000,
  optimizationRuleModelsMax: 50,
  /**
   * Wrong keys from one network: how many a minute are answered at once, the delay of the others, and how many wait at a time.
   */
  keyFailuresPerMinuteMax: 10,
  keyFailureDelayMs: 500,
  keyFailuresWaitingMax: 200,
  keyFailureNetworksMax: 10_000,
} as const
