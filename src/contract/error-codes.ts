/**
 * Every error the product can answer with, once. Codes are public: never reused, never renamed.
 *
 * `kind` says who must act: `input` the caller can fix, `denied` the caller may not, `conflict` the state forbids it,
 * `unavailable` wait and retry, `internal` our bug.
 * `retry`: `never` as it stands, `after-fix` once the caller changed something, `later` after `retry_after_ms`.
 */
export type ErrorKind = 'input' | 'not-found' | 'denied' | 'conflict' | 'unavailable' | 'cancelled' | 'internal'
export type RetryAdvice = 'never' | 'after-fix' | 'later'
export type ErrorEntry = Readonly<{ kind: ErrorKind; httpStatus: number; retry: RetryAdvice; nextStep: string }>

const entry = (kind: ErrorKind, httpStatus: number, retry: RetryAdvice, nextStep: string): ErrorEntry => ({
  kind,
  httpStatus,
  retry,
  nextStep,
})

export const errorCodes = {
  ERR_INVALID_INPUT: entry('input', 400, 'after-fix', 'Correct the named field and call again.'),
  ERR_UNKNOWN_TOOL: entry('input', 404, 'after-fix', 'Use search_tools to find the exact name.'),
  ERR_NOT_FOUND: entry('not-found', 404, 'after-fix', 'List what exists and use one of those ids.'),
  ERR_TASK_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use task_list to find the task id.'),
  ERR_PROJECT_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use project_list, or project_create to make it.'),
  ERR_SESSION_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Start one with audit_session_start.'),
  ERR_SKILL_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use skill_list to find the skill.'),
  ERR_NOTE_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use vault with action list to find the note.'),
  ERR_AGENT_NOT_FOUND: entry('not-found', 404, 'after-fix', 'List the agents and use one of those ids.'),
  ERR_FILE_NOT_FOUND: entry('not-found', 404, 'after-fix', 'List the directory to see what it holds.'),
  ERR_NOT_A_FILE: entry('input', 400, 'after-fix', 'Give the path of a regular file.'),
  ERR_NOT_A_DIRECTORY: entry('input', 400, 'after-fix', 'Give the path of a directory.'),
  ERR_FILE_REFUSED: entry('denied', 403, 'after-fix', 'Use another place, or run a command in the workspace.'),
  ERR_DISK_FULL: entry('conflict', 409, 'after-fix', 'Remove files in the workspace, or give it a larger disk.'),
  ERR_WORKSPACE_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use workspace_list to find the workspace.'),
  ERR_WORKSPACE_ORPHANED: entry('conflict', 409, 'after-fix', 'Take it over with workspace_adopt, then call again.'),
  ERR_WORKSPACE_STATE: entry('conflict', 409, 'after-fix', 'See its state in workspace_info, then start or stop it.'),
  ERR_WORKSPACE_STOPPED: entry('conflict', 409, 'after-fix', 'Start it with workspace_start, then call again.'),
  ERR_SNAPSHOT_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use snapshot with the action list to find the name.'),
  ERR_JOB_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use exec_background with the action list to find the job.'),
  ERR_TEAM_NOT_FOUND: entry('not-found', 404, 'after-fix', 'Use team with the action list to find the team.'),
  ERR_INBOX_FULL: entry('conflict', 409, 'after-fix', 'Let the agent receive what waits for it, then call again.'),
  ERR_NOT_A_REPOSITORY: entry('not-found', 404, 'after-fix', 'Name the directory of a repository, or use git_clone.'),
  ERR_GIT_FAILED: entry('conflict', 409, 'after-fix', 'Read git_output in the details and correct what it names.'),
  ERR_WORKTREE_DIRTY: entry(
    'conflict',
    409,
    'after-fix',
    'Commit with git_commit or undo the changes, then call again.',
  ),
  ERR_COMMAND_FAILED: entry('conflict', 409, 'after-fix', 'Read its output in the details and correct the command.'),
  ERR_NOT_TEXT: entry('input', 400, 'after-fix', 'Use file_transfer for what is not text in UTF-8.'),
  ERR_IMAGE_IN_USE: entry('conflict', 409, 'after-fix', 'Destroy the workspaces that use it, then call again.'),
  ERR_JOB_RUNNING: entry('conflict', 409, 'after-fix', 'Kill the job or wait for its end, then call again.'),
  ERR_BACKEND_FAILED: entry('unavailable', 503, 'later', 'See workspace_logs and castellan doctor, then call again.'),
  ERR_QUOTA_EXCEEDED: entry('conflict', 409, 'after-fix', 'Destroy what is not needed, or ask the operator for more.'),
  ERR_CAPABILITY_MISSING: entry(
    'unavailable',
    503,
    'after-fix',
    'Run castellan doctor to see what is missing and why.',
  ),
  ERR_INVALID_TRANSITION: entry('input', 400, 'after-fix', 'Choose one of the allowed next states.'),
  ERR_CIRCULAR_DEPENDENCY: entry('input', 400, 'after-fix', 'Remove the dependency that closes the circle.'),
  ERR_ALREADY_EXISTS: entry('conflict', 409, 'after-fix', 'Use the existing one or choose another name.'),
  ERR_FRONTMATTER_INVALID: entry('conflict', 409, 'after-fix', 'Read the note, repair its front matter and write it.'),
  ERR_ALREADY_FINALIZED: entry('conflict', 409, 'never', 'Read the frozen root with merkle_root.'),
  ERR_PERMISSION_DENIED: entry('denied', 403, 'never', 'Ask an administrator for the permission.'),
  ERR_POLICY_VIOLATION: entry('denied', 403, 'after-fix', 'Do what the message says is allowed, or ask for more.'),
  ERR_CONTEXT_NOT_ALLOWED: entry(
    'denied',
    403,
    'after-fix',
    'Ask for a context that your identity may have, or leave it out.',
  ),
  ERR_MODE_REFUSED: entry('denied', 403, 'after-fix', 'Restart the server in a mode that allows this.'),
  ERR_FEATURE_DISABLED: entry('denied', 403, 'after-fix', 'Ask the operator to turn it on in the configuration.'),
  ERR_UNAUTHENTICATED: entry('denied', 401, 'after-fix', 'Send a valid API key as a bearer token.'),
  ERR_HOST_REFUSED: entry('denied', 403, 'after-fix', 'Use a loopback address, or add the name to allowed_hosts.'),
  ERR_ORIGIN_REFUSED: entry('denied', 403, 'after-fix', 'Add the origin to allowed_origins.'),
  ERR_ROUTE_NOT_FOUND: entry('not-found', 404, 'after-fix', 'See GET / for the addresses there are.'),
  ERR_METHOD_NOT_ALLOWED: entry('input', 405, 'after-fix', 'Use a method that the Allow header names.'),
  ERR_MEDIA_TYPE_UNSUPPORTED: entry('input', 415, 'after-fix', 'Send application/json in UTF-8, not compressed.'),
  ERR_RATE_LIMITED: entry('unavailable', 429, 'later', 'Wait for retry_after_ms and call again.'),
  ERR_TOO_LARGE: entry('input', 413, 'after-fix', 'Send less, or ask for a smaller page.'),
  ERR_TIMED_OUT: entry('unavailable', 504, 'after-fix', 'Ask for less in one call, or for more time.'),
  ERR_WEB_FAILED: entry('unavailable', 502, 'later', 'Check the address, or try again later.'),
  ERR_BUSY: entry('unavailable', 503, 'later', 'Wait a moment and call again.'),
  ERR_OWNER_LOST: entry('unavailable', 503, 'later', 'Check whether the call took effect, then call again.'),
  ERR_SHUTTING_DOWN: entry('unavailable', 503, 'later', 'Connect again after the restart.'),
  ERR_STORE_UNAVAILABLE: entry('unavailable', 503, 'later', 'See server_health and castellan doctor.'),
  ERR_CANCELLED: entry('cancelled', 499, 'never', 'Nothing was changed by the cancelled call.'),
  ERR_INVALID_MODE: entry('input', 400, 'after-fix', 'Use FULL, READONLY, TEST or MINIMAL.'),
  ERR_CONFIG_INVALID: entry(
    'input',
    400,
    'after-fix',
    'Correct the configuration; castellan config validate checks it.',
  ),
  ERR_INIT_FAILED: entry('unavailable', 503, 'after-fix', 'See the message, then run castellan doctor.'),
  ERR_LOG_INVALID: entry('conflict', 409, 'never', 'The record does not verify: keep the evidence and investigate.'),
  ERR_INTERNAL: entry('internal', 500, 'later', 'Report the reference id to the operator.'),
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof errorCodes
