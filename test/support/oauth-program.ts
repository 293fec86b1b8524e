/** What a program on a user's machine stores of its sign-in. */
export type Saved = {
  information?: unknown
  tokens?: { access_token: string; refresh_token?: string } | undefined
  verifier?: string
  discovery?: unknown
  /** Where the program sends the person. */
  opened?: URL
}

/** What the SDKs, both of them, ask a program for that signs its person in. */
export function oauthProgram(saved: Saved, redirectUrl: string, clientMetadata: object = {}) {
  return {
    redirectUrl,
    clientMetadata: { redirect_uris: [redirectUrl], client_name: 'A test program', ...clientMetadata },
    clientInformation: () => saved.information,
    saveClientInformation(information: unknown) {
      saved.information = information
    },
    tokens: () => saved.tokens,
    saveTokens(tokens: Saved['tokens']) {
      saved.tokens = tokens
    },
    redirectToAuthorization(url: URL) {
      saved.opened = url
    },
    saveCodeVerifier(verifier: string) {
      saved.verifier = verifier
    },
    codeVerifier: () => saved.verifier!,
    saveDiscoveryState(state: unknown) {
      saved.discovery = state
    },
    discoveryState: () => saved.discovery,
  } as never
}
