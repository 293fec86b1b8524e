/** Whether committed rows may be cached: not while a transaction that changes them is in progress. */
type ChangeWatch = Readonly<{
  /** Called within a transaction that changes what is kept. */
  noteChange(): void
  isChanging(): boolean
}>

/** `flush` resolves when everything that was started is committed; `forget` then drops what was cached before. */
export function createChangeWatch({
  flush,
  forget,
}: Readonly<{ flush(): Promise<void>; forget(): void }>): ChangeWatch {
  let underWay = 0
  return {
    noteChange() {
      underWay++
      flush()
        .catch(() => {})
        .finally(() => {
          underWay--
          forget()
        })
    },
    isChanging: () => underWay > 0,
  }
}
