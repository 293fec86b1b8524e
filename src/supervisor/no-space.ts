/** The messages of Node (which has no name for EDQUOT), of Perl and of the programs that are run. */
const NO_SPACE = /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded|system error -122/

export const isNoSpace = (error: unknown): boolean =>
  NO_SPACE.test(error instanceof Error ? error.message : String(error))
