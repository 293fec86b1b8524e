/** The next step after a failed `git clone` or `git push`, derived from git's message in the C locale. */
const hints: readonly (readonly [RegExp, string])[] = [
  [
    /Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|Permission denied \(|Invalid username or|HTTP 40[13]|error: 40[13]|Host key verification failed/i,
    'the remote requires credentials; ask the operator to configure them in the egress proxy for this host, so that they never enter the workspace',
  ],
  [
    /Could not resolve (?:host|proxy)|Failed to connect|Connection (?:refused|timed out|reset)|Network is unreachable|No route to host|unable to connect/i,
    'the host cannot be reached; see network_policy for what this workspace may reach',
  ],
  [
    /non-fast-forward|\(fetch first\)|stale info/i,
    'the remote has commits that this branch lacks; fetch and merge them first, or set force to overwrite them',
  ],
  [/src refspec \S+ does not match any/i, 'there is no such branch in the workspace'],
  [/Remote branch \S+ not found/i, 'the repository has no such branch or tag'],
  [/remote rejected|hook declined|protected branch/i, 'the remote refused the branch'],
  [
    /Repository not found|does not appear to be a git repository|not found/i,
    'there is no such repository, or it is not visible',
  ],
  [/No space left on device|Disk quota exceeded/i, 'the disk of the workspace is full'],
]

export const networkHint = (stderr: string): string | undefined => hints.find(([pattern]) => pattern.test(stderr))?.[1]
