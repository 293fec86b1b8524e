/** How pages say what a program that asks for access is called and would get. */

/** A name as it is read: characters that are not seen could reverse it or hide a part. */
export const visible = (name: string): string => name.replaceAll(/[\p{Cf}\p{Cc}]/gu, '').slice(0, 128)

export function reachOf(resources: readonly string[]): string {
  const paths = resources.map((resource) => URL.parse(resource)?.pathname ?? '')
  if (paths.length === 0 || !paths.every((path) => path.startsWith('/mcp/'))) {
    return 'It would be able to do everything that you can do.'
  }
  return `It would be able to use the tools at ${paths.join(', ').slice(0, 256)}, and no others.`
}

/** A command line may do what other programs may not, so a page says so. */
export const terminalText = (scopes: readonly string[]): string =>
  scopes.includes('terminal')
    ? ' It could also answer approvals and change rules as you. Allow this only to castellan login, on a machine of yours.'
    : ''
