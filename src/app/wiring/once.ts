/** Creates the value on first use, once. */
type Once<T> = (() => Promise<T>) &
  Readonly<{
    /** The value if it exists, without creating it; also undefined if creating it failed. */
    made(): Promise<T | undefined>
  }>

export function once<T>(make: () => Promise<T>): Once<T> {
  let made: Promise<T> | undefined
  const get = (): Promise<T> => {
    made ??= make()
    return made
  }
  return Object.assign(get, { made: async () => await made?.catch(() => undefined) })
}
