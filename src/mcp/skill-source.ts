import type { Principal } from '../contract/principal.ts'

/**
 * Where the transport gets the skills that it offers through the MCP skills extension.
 * A skill is a folder whose `SKILL.md` begins with front matter carrying the same `name`; `files` names every file below
 * the folder, `SKILL.md` included, by relative paths with `/` between segments.
 */
export type SkillSummary = Readonly<{ name: string; description: string; files: readonly string[] }>

export type SkillSource = Readonly<{
  /** Every skill this principal may use. May depend on its tenant and on skill:read, on nothing else of it. */
  list(principal: Principal): Promise<readonly SkillSummary[]>
  /** The bytes of one file, or `undefined` when the skill or the file is gone. */
  read(principal: Principal, skill: string, path: string): Promise<Uint8Array | undefined>
  /** Looks for what no event tells, such as the first skill of all; whatever it finds, `onChange` is called before it ends. */
  refresh(): Promise<void>
  /** Called when skills or their files may have changed. Returns an unsubscribe function. */
  onChange(listener: () => void): () => void
}>
