import { governanceLimits } from './governance-limits.ts'
import { mcpServerLimits } from './mcp-server-limits.ts'
import { modelProxyLimits } from './model-proxy-limits.ts'
import { peopleLimits } from './people-limits.ts'
import { policyLimits } from './policy-limits.ts'

/** Every bound of the program, in one place. A caller that exceeds one is refused with a clear error. */
export const limits = {
  /** One JSON-RPC message or HTTP body. */
  messageBytesMax: 4 * 1024 * 1024,
  /** Nesting of one message or body, the values in it, and the members of its objects; checked before it is parsed. */
  messageDepthMax: 64,
  messageValuesMax: 200_000,
  messageMembersMax: 25_000,
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
  /** Read records that are gathered into one transaction: at full speed, about what comes until they are committed anyway. */
  readRecordsGatheredMax: 512,
  /** Transactions of gathered records in one commit. */
  readRecordsBatchMax: 128,
  /** The text of a log entry for several reads. A record that exceeds it alone gets its own entry. */
  readsEntryCharsMax: 128 * 1024,
  /** The longest time a read record waits before it is committed. */
  readRecordDelayMs: 50,
  toolListPageSize: 256,
  /**
   * HTTP sessions over all identities, and of one. Beyond either bound an idle session is ended. This many are reserved for
   * operators of this installation, and as many again for the local owner.
   */
  httpSessionsMax: 1_000,
  httpSessionsPerIdentityMax: 100,
  httpSessionsReserved: 100,
  httpSessionIdleMs: 30 * 60_000,
  /** A session without any message after `initialize`. */
  httpSessionUnusedMs: 60_000,
  /** Request line and headers of one HTTP request. */
  httpHeaderBytesMax: 16 * 1024,
  /** Time that a client has to send all headers, and the whole request; a slower one is answered 408. */
  httpHeadersTimeoutMs: 10_000,
  httpRequestTimeoutMs: 60_000,
  /** How often slow clients are checked. */
  httpTimeoutCheckMs: 2_000,
  httpKeepAliveMs: 65_000,
  /** A request of at most so many bytes may take the shorter way; see `src/http/plain-connections.ts`. */
  plainRequestBytesMax: 32 * 1024,
  /** Connections over all, and those of one key; this many are reserved for the owner, and for operators, as above. */
  httpConnectionsMax: 4_096,
  httpConnectionsPerKeyMax: 512,
  httpConnectionsReserved: 512,
  /** How long the rest of a refused body is read, so that the client sees the refusal. */
  httpLingerMs: 1_000,
  /** How often the files of a TLS certificate are checked for a change. */
  tlsPollMs: 1_000,

  ...governanceLimits,
  ...peopleLimits,
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
  /** When a key ends, everything that it has open ends within this time, whichever process revoked it. */
  keyReconcileMs: 500,
  apiKeyCacheMax: 1_000,
  /** `last_used_at` of a key is written at most this often. */
  apiKeyTouchMs: 60_000,
  apiKeyLifetimeMsMax: 3_660 * 24 * 3_600_000,
  /** Custom roles of one tenant. */
  customRolesMax: 100,
  listedRowsMax: 1_000,
  /** MCP tasks: over all callers, of one, reserved for the owner, retention, and how often expired ones are removed. */
  mcpTasksMax: 2_000,
  mcpTasksPerIdentityMax: 200,
  mcpTasksReserved: 200,
  mcpTaskTtlMs: 60 * 60_000,
  mcpTaskPollMs: 1_000,
  /** The wait of a waiting tool if the caller sets none. */
  waitSecondsDefault: 300,
  /** Running workflows that are searched for those that wait for a person. */
  approvalsLookedAtMax: 5_000,
  /** The newest workflow runs, and the last events of each, that are searched for answered questions. */
  answeredLookedAtMax: 100,
  /** How often an open event stream sends a keep-alive, and how long a reader may read nothing. */
  eventStreamKeepAliveMs: 15_000,
  eventStreamStallMs: 60_000,
  /** How often the latest time is saved in the store, and how far a clock is behind it before that is reported. */
  clockSavedMs: 60_000,
  clockBehindToldMs: 5_000,
  /** How long a SEAL session lasts, and how far the time in a signed call may be from ours. */
  sealSessionMs: 60 * 60_000,
  sealClockSkewMs: 30_000,
  /** A signed call is remembered for this long after its time has passed: a clock may be set back. */
  sealMessageRetentionMs: 5 * 60_000,
  /** Ended sessions are listed for this long. */
  sealEndedSessionRetentionMs: 24 * 60 * 60_000,
  /** Past this many live sessions of one identity, the oldest is revoked. */
  sealSessionsPerIdentityMax: 100,
  sealSessionListMax: 200,
  /** How often ended sessions and remembered calls are removed. */
  sealSweepMs: 60_000,
  sealTaskSummaryCharsMax: 256,
  /** One secret, its description, how many are listed, and how many a rotation encrypts in one transaction. */
  secretCharsMax: 64 * 1024,
  secretPurposeCharsMax: 200,
  secretRotationBatch: 100,
  /** How long a link can be used, how long an expired link is told apart from an unknown one, and how many values it accepts. */
  secretLinkMs: 60 * 60_000,
  secretLinkRetentionMs: 24 * 60 * 60_000,
  secretLinkFieldsMax: 64,
  /** The size of a form of our pages, and connections to a port that serves only such pages. */
  formBytesMax: 1024 * 1024,
  linkConnectionsMax: 64,
  ...mcpServerLimits,
  ...modelProxyLimits,
  ...policyLimits,
  /** Buckets of the rate limiter, over all callers and categories. */
  rateBucketsMax: 10_000,
  /** Commands in one exec_parallel, forks in one workspace_fork. */
  workspaceBatchMax: 20,
  /** Calls that wait for the same workspace to be free; more are answered ERR_BUSY. */
  workspaceQueueMax: 100,
  workspaceEnvVariablesMax: 256,
  workspaceDomainsMax: 256,
  /** Folders of the host in one workspace. */
  workspaceMountsMax: 8,
  workspaceEnvBytesMax: 128 * 1024,
  workspaceForwardsMax: 50,
  /** Files and folders that one owner, and one tenant, copied out of workspaces. */
  transferNamesPerOwnerMax: 5_000,
  transferNamesPerTenantMax: 20_000,
  workspaceStopGraceMs: 10_000,
  /**
   * When a key is revoked: how long processes in its workspaces have to end by themselves, and how often such workspaces are
   * checked.
   */
  workspaceEndGraceMs: 500,
  revokedOwnersReconcileMs: 1_000,
  /** Destroyed workspaces of one owner whose snapshots are retained for forks, and how long after the last snapshot. */
  archivedWorkspacesMax: 16,
  archivedWorkspaceMs: 7 * 24 * 3_600_000,
  /** The latest iterations of an execution whose workspace snapshots are retained. */
  executionSnapshotsMax: 10,
  execTimeoutDefaultSecs: 120,
  execParallelTimeoutDefaultSecs: 300,
  execTimeoutSecsMax: 24 * 3600,
  execCommandCharsMax: 1024 * 1024,
  execOutputBytesDefault: 256 * 1024,
  /** Default output of each stream in an answer. Clients truncate longer answers, and not in the middle. */
  execDisplayedBytesDefault: 16 * 1024,
  execOutputBytesMax: 2 * 1024 * 1024,
  execProgressMs: 1_000,
  /** Commands of one workspace_prepare, and the time limit of each. */
  prepareCommandsMax: 100,
  prepareTimeoutDefaultSecs: 300,
  /** Tasks of one swarm_run that run at once, and the time limit of each. */
  swarmParallelDefault: 4,
  swarmTimeoutDefaultSecs: 600,
  swarmContextCharsMax: 1024 * 1024,
  /** One page of file_read; a larger file is read page by page. */
  fileReadBytesDefault: 256 * 1024,
  fileReadBytesMax: 1024 * 1024,
  /** A file of an execution, as a whole. */
  executionFileBytesMax: 4 * 1024 * 1024,
  /** What file_write takes in one call; larger content goes through file_transfer. */
  fileWriteCharsMax: 4_000_000,
  /** The largest file that file_edit rewrites. */
  fileEditBytesMax: 64 * 1024 * 1024,
  fileListEntriesMax: 10_000,
  /** The size of a file that fs.read returns or fs.edit changes, and of the largest answer with one in it. */
  agentFileBytesMax: 10 * 1024 * 1024,
  agentFileAnswerBytesMax: 24 * 1024 * 1024,
  agentEditsMax: 200,
  /** A pattern of fs.grep or fs.glob. */
  agentPatternCharsMax: 4_096,
  /** Results of fs.grep and fs.glob, and their time limit; results beyond are reported as omitted. */
  agentMatchesMax: 2_000,
  agentMatchBytesMax: 1024 * 1024,
  agentGrepLineBytesMax: 1_000,
  agentSearchOutputBytesMax: 64 * 1024 * 1024,
  agentSearchMs: 20_000,
  webRedirectsMax: 10,
  /** Results of one web.search, and the time limit of one attempt. */
  webResultsMax: 20,
  webSearchMs: 20_000,
  /** Arguments of cmd.run. */
  commandArgumentsMax: 1_000,
  /** A client's configuration file that `castellan import` reads. */
  importFileBytesMax: 4 * 1024 * 1024,
  /** One note of a vault. */
  vaultNoteBytesMax: 10 * 1024 * 1024,
  /** Text of a note in one call; the rest of the message needs space too. */
  vaultTextCharsMax: 3.5 * 1024 * 1024,
  vaultPathCharsMax: 1_024,
  /** Names in a path of a vault. */
  vaultFolderDepthMax: 32,
  /** Entries that one walk through a vault visits; the rest is reported as omitted. */
  vaultWalkMax: 200_000,
  vaultListMax: 5_000,
  vaultBatchMax: 10,
  /** Content of all notes of one batch together, so that the answer stays below its own bound. */
  vaultBatchBytesMax: 4 * 1024 * 1024,
  vaultFrontmatterCharsMax: 64 * 1024,
  vaultRecentMax: 100,
  vaultSearchResultsMax: 1_000,
  /** A search ends after this time with the results so far. */
  vaultSearchMs: 20_000,
  /** A regular expression given by a caller: its characters, and its compiled size. */
  vaultPatternCharsMax: 1_024,
  vaultPatternSizeMax: 1_500,
  /** A regular expression sees only the beginning of a longer line. */
  vaultPatternLineCharsMax: 8_192,
  /** Characters times pattern size: the cost bound of one match attempt, in a line and in a whole note. */
  vaultPatternLineWorkMax: 2_000_000,
  vaultPatternWorkMax: 20_000_000,
  /** A replacement by regular expression gives up after this time. */
  vaultReplaceMs: 5_000,
  /** A change that waits for a note which others are changing gives up after this time. */
  vaultLockWaitMs: 10_000,
  teamNameCharsMax: 64,
  teamSkillsMax: 32,
  teamTextCharsMax: 2_048,
  /** The default budget of a team. */
  teamVmsDefault: 10,
  /** Content of one message between the members of a team. */
  teamMessageBytesMax: 256 * 1024,
  teamMessageTypeCharsMax: 64,
  /** Messages that wait for one agent, and tasks whose results it has not received; more are refused. */
  teamInboxMax: 100,
  teamTasksMax: 100,
  /** Messages in one answer of `receive`; a longer inbox takes several calls. */
  teamReceiveMax: 100,
  /** Messages, and results, in one answer: for each of the two, as JSON. */
  teamReceiveBytesMax: 3 * 1024 * 1024,
  teamTaskIdCharsMax: 256,
  teamTaskTimeoutDefaultSecs: 300,
  /** Tasks that run at the same time in the workspace of one agent. */
  teamTasksRunningMax: 4,
  /** The retained output of each stream of a task, and its size as JSON. */
  teamTaskOutputBytes: 64 * 1024,
  teamTaskOutputJsonBytes: 256 * 1024,
  /** The shortest and longest delay before tasks are reconciled again after a change, while some are unfinished. */
  teamReconcileMsMin: 25,
  teamReconcileMsMax: 2_000,
  /** The output of one git command that is read, unless it is a list of files or a diff. */
  gitOutputBytesMax: 4 * 1024 * 1024,
  gitFileListBytesMax: 32 * 1024 * 1024,
  gitDiffBytesDefault: 64 * 1024,
  gitDiffBytesMax: 1024 * 1024,
  /** Paths in one git_status, over all its lists. */
  gitStatusPathsMax: 5_000,
  /** Files that a refused merge lists. */
  gitConflictFilesMax: 500,
  /** Time limits: a small git command, one that scans a repository, and a clone. */
  gitCommandTimeoutMs: 120_000,
  gitLongTimeoutMs: 30 * 60_000,
  gitCloneTimeoutMs: 60 * 60_000,
  gitPushTimeoutDefaultSecs: 120,
  gitPushTimeoutSecsMax: 3_600,
  gitMessageCharsMax: 64 * 1024,
  /** Sources of one workspace_merge, and commits of one source that it replays. */
  gitMergeSourcesMax: 100,
  gitMergeCommitsMax: 2_000,
  /** Branches and tags of a target that a source is told, so that it need not send their commits. */
  gitMergeTipsMax: 2_000,
  /** Names of agents in one tenant, and versions of one agent. */
  agentsMax: 10_000,
  agentVersionsMax: 1_000,
  /** Agents, or gateways, or proxies of one author; the local owner has no such limit. */
  profilesOfAuthorMax: 1_000,
  profileNameCharsMax: 128,
  profileLabelsMax: 64,
  suggestedPromptsMax: 32,
  subAgentsMax: 64,
  /** Events in one page of an activity log. */
  logPageMax: 200,
  /**
   * Semantic search: texts in one request, documents that a search embeds, cached vectors, and the size of a service's answer.
   */
  embeddingBatchMax: 64,
  embeddingDocumentsMax: 1_000,
  embeddingsCachedMax: 20_000,
  embeddingAnswerBytesMax: 32 * 1024 * 1024,
  /** How long a tool search waits for the vector of its query before it uses words. */
  toolSearchModelMs: 5_000,
  /** How long computing the vectors of all tools may take, if the configured model is not the one they were shipped for. */
  toolVectorsMs: 120_000,
  /** With more tools than this, those of other servers included, search uses words alone. */
  toolsWithVectorsMax: 2_000,
  searchQueryCharsMax: 2_000,
  /** An intent in plain words. */
  intentCharsMax: 20_000,
  /** One manifest: its text, its values with aliases counted in full, and its nesting. */
  manifestCharsMax: 256 * 1024,
  manifestValuesMax: 10_000,
  manifestDepthMax: 32,
  /** Parsed manifests in memory, of agents and of workflows each: how many, and the characters of their texts together. */
  parsedManifestsMax: 1_000,
  parsedManifestCharsMax: 4 * 1024 * 1024,
  /** A regular expression of a manifest or of a schema in it: its characters, and its compiled size. */
  manifestPatternCharsMax: 1_024,
  manifestPatternSizeMax: 1_500,
  /** Characters times compiled size: what a validator's pattern, or the patterns of one schema, may cost on one output. */
  patternWorkMax: 20_000_000,
  /**
   * A JSON Schema that a caller supplies: its text; its values with those behind references counted again, for all schemas of a
   * manifest; how many values a pattern counts for at least; and the time to compile it and to check one value.
   */
  jsonSchemaCharsMax: 128 * 1024,
  jsonSchemaWorkMax: 3_000,
  jsonSchemaPatternWork: 20,
  jsonSchemaCompileMs: 1_000,
  jsonSchemaCheckMs: 250,
  /** Compiled schemas of tools of other servers that are cached. */
  upstreamSchemasCompiledMax: 500,
  /** The first delay before a step that the store did not accept is submitted again. */
  runRetryMsMin: 50,
  runRetryMsMax: 2_000,
  /** How often runs are reconciled in a store that other processes also write to. */
  runReconcileMs: 500,
  /** How often in a row a run is resumed after the server died, without progress in between. */
  runResumesMax: 3,
  /** Levels of child runs. */
  runDepthMax: 3,
  /** Levels of delegation below the first agent; not counted as levels of child runs. */
  delegationDepthMax: 3,
  delegatedMessageCharsMax: 64 * 1024,
  /** The longest time that one call waits for the end of a run: clients give up after about a minute. */
  runWaitMsMax: 45_000,
  runListMax: 200,
  runEventsPageMax: 200,
  /** The displayed part of one event's payload. */
  runEventBytesMax: 16 * 1024,
  /** A template of a prompt, and what it renders. */
  promptTemplateCharsMax: 128 * 1024,
  promptCharsMax: 1024 * 1024,
  /** The output of an earlier iteration that a later one sees. */
  attemptCharsMax: 8 * 1024,
  /** All earlier iterations that a later one sees, in its prompt and in its environment; the newest come first. */
  attemptsCharsMax: 128 * 1024,
  attemptsBytesMax: 64 * 1024,
  /** Rounds of model and tools in one iteration. */
  modelRoundsMax: 50,
  /** The part of one tool answer that the model sees. */
  toolAnswerCharsMax: 64 * 1024,
  /** One file or page of spec.context, and files of one directory. */
  contextCharsMax: 64 * 1024,
  contextFilesMax: 50,
  /** Output of an iteration's process that is retained. */
  iterationOutputBytesMax: 1024 * 1024,
  /** States in one workflow. */
  workflowStatesMax: 100,
  /** The blackboard of one run, as JSON. */
  workflowBlackboardCharsMax: 4 * 1024 * 1024,
  /** The default time limit of a workflow command, and the retained output of each of its streams. */
  workflowCommandTimeoutMs: 600_000,
  workflowOutputBytes: 1024 * 1024,
  /** How long a run waits for a person if the workflow sets no time. */
  workflowHumanTimeoutMs: 3_600_000,
  /** How often a run retries a busy tool. */
  workflowCallAttemptsMax: 6,
  /** Volumes that are copied to the workspace of another image, packed. */
  workflowVolumeBytesMax: 64 * 1024 * 1024,
  /** Pending runs of one owner. */
  pendingRunsMax: 5_000,
  /** Runs that start each other without waiting. */
  spawnDepthMax: 10,
  /** The work budget of texts that are rendered together (see work-meter), and the output of one template. */
  textWorkUnitsMax: 16_000_000,
  /** One expression in {{ }} or of a condition, expressions of a template, and nesting of blocks and calls. */
  expressionCharsMax: 4_000,
  templateExpressionsMax: 5_000,
  templateNestingMax: 32,
  templateCharsMax: 2 * 1024 * 1024,
} as const
