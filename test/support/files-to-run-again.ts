/** More than these is a broken change and not an unreliable test. */
const UNRELIABLE_FILES_MAX = 2

type EndedRun = Readonly<{
  code: number
  /** The words that chose its files; none if it was a run of everything. */
  filters: readonly string[]
  isLong: boolean
  /** Undefined if the run says of no file that it failed, such as for an error outside of any test. */
  failed: readonly string[] | undefined
}>

/**
 * Few failures in a run of everything. The long run looks for what happens rarely, so that passing the second time would say nothing of
 * it.
 */
export function filesToRunAgain({ code, filters, isLong, failed = [] }: EndedRun): readonly string[] {
  if (code === 0 || isLong || filters.length > 0) return []
  return failed.length <= UNRELIABLE_FILES_MAX ? failed : []
}
