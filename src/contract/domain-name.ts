const DOMAIN_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * A host that a workspace may be allowed to reach, in lower case and without the final dot; `*.example.org` covers the subdomains
 * of example.org. Undefined for anything else, IP addresses included, because the proxy decides by names.
 */
export function readDomain(input: string): string | undefined {
  const domain = input.toLowerCase().replace(/\.$/, '')
  const labels = (domain.startsWith('*.') ? domain.slice(2) : domain).split('.')
  const isNumeric = /^\d+$/.test(labels.at(-1)!)
  const isName = domain.length <= 253 && labels.length >= 2 && !isNumeric
  return isName && labels.every((label) => DOMAIN_LABEL.test(label)) ? domain : undefined
}
