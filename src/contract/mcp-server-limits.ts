/** Bounds of upstream MCP servers. */
export const mcpServerLimits = {
  /**
   * Catalogue items of a tenant, its deployments, tools of one server, former names of a tool, and a server's description of one.
   */
  mcpCatalogItemsMax: 2_000,
  mcpDeploymentsMax: 2_000,
  mcpToolsPerServerMax: 1_000,
  mcpToolAliasesMax: 8,
  /** Tools that a server no longer lists: this many are retained, in case they come back. */
  mcpRemovedToolsMax: 1_000,
  /** The first pause for a server that keeps announcing changed tools; it doubles each time. */
  mcpRelistMs: 1_000,
  mcpRelistMsMax: 5 * 60_000,
  /** After a list is fetched and stored, the pause is at least this many times as long as that took. */
  mcpRelistRestFactor: 20,
  /** Pages of a server's list of tools, and the definition of one tool as JSON. */
  mcpToolPagesMax: 20,
  mcpToolBytesMax: 128 * 1024,
  mcpToolDescriptionCharsMax: 16 * 1024,
  /** One message of an MCP server, and its text about a failure. */
  mcpMessageBytesMax: 16 * 1024 * 1024,
  mcpErrorCharsMax: 2_000,
  /** The size of an authorization server's answer, and how long before its expiry a token is renewed. */
  mcpOauthBytesMax: 1024 * 1024,
  mcpTokenRenewalMs: 30_000,
  /** How long an MCP server has for a handshake, for a question of the newer revision, and to end by itself. */
  mcpConnectMs: 30_000,
  mcpProbeMs: 5_000,
  mcpServerEndGraceMs: 2_000,
  mcpReadinessPollMs: 100,
  mcpInstallMs: 10 * 60_000,
  /** How often a caller that waits for a server is told that it goes on. */
  mcpWaitingToldMs: 1_000,
  /** The first pause after a server failed; it doubles each time. */
  mcpBackOffMs: 1_000,
  mcpBackOffMsMax: 60_000,
  /** The log of a server: at most twice this many bytes, and the length of one line. */
  mcpLogBytesMax: 256 * 1024,
  mcpLogLineCharsMax: 4_000,
  mcpLogLinesMax: 2_000,
  /** How often changes of tools by another process are checked. */
  mcpVersionPollMs: 1_000,
  /** A server's open questions on one connection, rounds of questions in one call, and how long a client has to answer. */
  mcpQuestionsOpenMax: 8,
  mcpRoundsMax: 32,
  mcpAnswerMs: 10 * 60_000,
  /** Own connections of one client without a session, and of all clients of one caller together. */
  mcpConnectionsPerClientMax: 4,
  mcpConnectionsPerCallerMax: 16,
  /** How long a server's task may take, and the bounds of its polling interval. */
  mcpUpstreamTaskMs: 60 * 60_000,
  mcpTaskPollMsMin: 50,
  mcpTaskPollMsMax: 10_000,
  /** The size of a client's `initialize`, if its session is to outlive the process. */
  mcpInitializeCharsMax: 16 * 1024,
  /** Subscriptions of one client. */
  mcpSubscriptionsMax: 32,
  /** Calls that wait for their client to answer and call again: of one caller, and of all. */
  mcpWaitingPerCallerMax: 32,
  mcpWaitingMax: 512,
  /** An answer on its way between two processes, with what came of it; a call may take long. */
  mcpPassedAnswerMs: 3_600_000,
  /** How long what came of one waits to be fetched. */
  mcpPassedOutcomeMs: 10_000,
  /** How long the end of a session is stored for other processes, which look every second. */
  mcpSessionEndedMs: 120_000,
  /** What is said beside an answer on its way back, at once; older notifications are dropped for newer ones. */
  mcpPassedNoticesMax: 64,
  mcpPassedNoticesCharsMax: 256 * 1024,
  /** What a client over HTTP may leave unread of a stream before it is disconnected. */
  mcpUnreadBytesMax: 16 * 1024 * 1024,
  /** How often a process notes that it is there with its tasks, and how long it may be silent. */
  mcpTaskProcessMs: 10_000,
  mcpTaskProcessSilentMs: 30_000,
  /** Installation requests of a tenant, notes of one, and the length of each. */
  mcpInstallationRequestsMax: 5_000,
  mcpRequestNotesMax: 100,
  /** Resources, templates or prompts in one list of a gateway. */
  mcpContentItemsMax: 5_000,
  /** Tools of one gateway or agent, and assignments in one call. */
  toolAssignmentsMax: 1_000,
  toolAssignmentsPerCallMax: 500,
  /** Servers on a page in the format of the registry, by default and at most. */
  mcpRegistryPageDefault: 30,
  mcpRegistryPageMax: 100,
} as const
