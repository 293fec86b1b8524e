import type { LayerRow } from './layer-rules.ts'

/** The rows of the program that holds workspaces, and of its client. */
export const supervisorRows: readonly LayerRow[] = [
  {
    folder: 'supervisor',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor/*'],
    packages: [
      'node:child_process',
      'node:events',
      'node:fs',
      'node:net',
      'node:os',
      'node:path',
      'node:stream',
      'node:url',
      'node:util',
    ],
    reason:
      'A program of its own that outlives the server: it does for workspaces what their port says, and decides nothing.',
  },
  {
    folder: 'supervisor/rooted-files',
    folders: ['kernel', 'contract', 'domains/workspaces'],
    packages: ['node:fs', 'node:stream'],
    reason: 'Files below one root, whatever changes meanwhile.',
  },
  {
    folder: 'supervisor/seccomp',
    folders: [],
    packages: [],
    reason: 'Assembles a filter from tables; it runs nothing.',
  },
  {
    folder: 'supervisor/network',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor'],
    packages: ['node:events', 'node:fs', 'node:net', 'node:os', 'node:path', 'node:timers'],
    reason: 'Links and rules between workspaces, by the programs ip, nft and slirp4netns.',
  },
  {
    folder: 'supervisor/egress',
    folders: ['kernel', 'contract'],
    packages: [
      'node:child_process',
      'node:crypto',
      'node:dns',
      'node:fs',
      'node:http',
      'node:net',
      'node:path',
      'node:stream',
      'node:tls',
      'node:util',
    ],
    reason: 'A proxy by itself: it asks by address what is allowed, and knows nothing of workspaces.',
  },
  {
    folder: 'supervisor/images',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor'],
    packages: [
      'node:child_process',
      'node:crypto',
      'node:events',
      'node:fs',
      'node:path',
      'node:readline',
      'node:stream',
      'node:util',
      'node:zlib',
    ],
    reason: 'Root file systems to start from, made from the host, archives or packages.',
  },
  {
    folder: 'backends/namespaces',
    folders: ['kernel', 'contract', 'domains/workspaces', 'supervisor', 'supervisor/*'],
    packages: [
      '@vscode/ripgrep',
      'node:child_process',
      'node:events',
      'node:fs',
      'node:net',
      'node:os',
      'node:path',
      'node:stream',
      'node:url',
    ],
    reason: "The supervisor's client: it starts it with the programs it needs, and speaks its protocol.",
  },
]
