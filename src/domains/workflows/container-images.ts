/**
 * Which image of this installation an image of a manifest means. Registries are not asked: an image is known by its full
 * name, or by the last part of it with or without its tag (`docker.io/library/alpine:3.20` is `alpine:3.20`, `alpine-3.20`
 * or `alpine`). What has no such image runs on the default one, and the run says so.
 */
export function chooseImage(
  wanted: string,
  { names, fallback }: Readonly<{ names: readonly string[]; fallback: string }>,
): Readonly<{ image: string; substituted: boolean }> {
  const last = wanted.slice(wanted.lastIndexOf('/') + 1).replace(/@.*$/, '')
  const [name = last, tag] = last.split(':')
  const candidates = [wanted, last, ...(tag === undefined ? [] : [`${name}-${tag}`]), name]
  const image = candidates.find((candidate) => names.includes(candidate))
  return image === undefined ? { image: fallback, substituted: true } : { image, substituted: false }
}
