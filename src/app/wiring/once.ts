/** Makes it when it is first asked for, once. */
type Once<T> = (() => Promise<T>) &
  Readonly<{
    /** What has been made, without making it; undefined also when making it failed. */
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
