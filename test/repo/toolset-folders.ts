import type { Toolset } from '../../src/tools/runtime/define-tool.ts'

/**
 * One noun has one name in `domains/`, `stores/` and `tools/`. The names of toolsets are public and older than some of the nouns: these
 * are those whose folders have another name. Any other toolset is a folder of its own name.
 */
const otherFolders: Readonly<Partial<Record<Toolset, readonly string[]>>> = {
  cmd: ['commands'],
  fs: ['files'],
  identity: ['identity', 'seal'],
  ledger: ['tasks', 'trail', 'skills'],
  workflows: ['workflows', 'approvals'],
}

export const foldersOf = (toolset: Toolset): readonly string[] => otherFolders[toolset] ?? [toolset]

/** Folders of tools that are about no domain, and what they are about. */
export const foldersWithoutDomain: ReadonlyMap<string, string> = new Map([
  ['meta', 'Finding and running other tools: that is the catalogue and the pipeline, which are tools/runtime.'],
  ['modes', 'What a connection sees: that is a property of the connection, which tools/runtime keeps.'],
])
