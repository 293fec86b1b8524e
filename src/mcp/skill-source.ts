import type { Principal } from '../contract/principal.ts'

/**
 * Where the transport gets the skills that it offers through the MCP skills extension.
 * A skill is a folder whose `SKILL.md` begins with front matter carrying the same `name`; `files` names every file below
 * the folder, `SKILL.md` included, by relative paths with `/` between segments.
 */
export type SkillSummary = Readonly<{ name: string; description: string; files: readonly string[] }>

export type SkillSource = Readonly<{
  /** Every skill this principal may use. May depend only on its tenant and on skill:read. */
  list(principal: Principal): Promise<readonly SkillSummary[]>
  /** The bytes of one file, or `undefined` if the skill or the file no longer exists. */
  read(principal: Principal, skill: string, path: string): Promise<Uint8Array | undefined>
  /** Looks for changes that cause no event, such as the first skill of all; calls `onChange` before it ends if it finds any. */
  refresh(): Promise<void>
  /** Called when skills or their files may have changed. Returns an unsubscribe function. */
  onChange(listener: () => void): () => void
}>
