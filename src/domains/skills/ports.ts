/** A skipped file or folder, for the operator. `path` is relative to its root. */
export type SkillProblem = Readonly<{ path: string; reason: string }>

/** Where a skill was found. `stamp` differs whenever its SKILL.md may have other content. */
export type SkillLocation = Readonly<{ root: string; name: string; path: string; stamp: string }>

export type SkillScan = Readonly<{ found: readonly SkillLocation[]; problems: readonly SkillProblem[] }>

/** `file` is relative to the skill's folder, with `/` between segments. `sha256` is lower-case hex. */
export type SkillFileInfo = Readonly<{ file: string; sizeBytes: number; sha256: string }>

/**
 * The folders that hold skills.
 *
 * 1. Nothing is opened, read or watched before the first `scan`, and nothing runs between calls.
 * 2. `scan` sees every change that was complete before the call, if the system can watch folders; elsewhere within two seconds.
 *    It returns the same object while nothing changes, with locations in order of the roots, then by name: a name may occur
 *    twice, from two roots.
 * 3. No method follows a link out of a skill's folder, or a skill's folder out of the skills folders of the roots. Nothing in a
 *    protected directory is ever listed, opened or read, whatever links there are.
 */
export type SkillSource = Readonly<{
  scan(): Promise<SkillScan>
  /** Every file of the skill, by name, without hidden ones. ERR_TOO_LARGE beyond the limits of a skill. */
  files(location: SkillLocation): Promise<readonly SkillFileInfo[]>
  /** ERR_NOT_FOUND for anything but a regular file of this skill, ERR_TOO_LARGE for more than `bytesMax`. */
  readFile(location: SkillLocation, file: string, bytesMax: number): Promise<Uint8Array>
  /** Called, after a short pause that gathers events, when a folder seen by `scan` or `files` changed. Returns an unsubscriber. */
  onChange(listener: () => void): () => void
  close(): void
}>
