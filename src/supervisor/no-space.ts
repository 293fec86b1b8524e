/** In the words of Node, which has no name for a full quota, of Perl and of the programs that are run. */
const NO_SPACE = /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded|system error -122/

/** Whether something failed because the disk or its quota is full. */
export const isNoSpace = (error: unknown): boolean =>
  NO_SPACE.test(error instanceof Error ? error.message : String(error))
