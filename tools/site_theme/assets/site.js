/* Offers the versions of the site that versions.js lists, the newest first. Without it the version is a plain link. */
for (const link of document.querySelectorAll("a[data-version]")) {
  const versions = window.siteVersions ?? [];
  if (!versions.length) continue;
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Version");
  for (const version of versions) {
    const option = new Option(version, version, false, version === link.dataset.version);
    select.add(option);
  }
  select.addEventListener("change", () => {
    location.href = new URL(`../${select.value}/index.html`, new URL(`${link.dataset.root}/`, location.href));
  });
  link.replaceWith(select);
}
/* Wide blocks scroll sideways, so the keyboard must reach them. The theme wraps tables later. */
const article = document.querySelector("article") ?? document.body;
function reachBlocks() {
  for (const block of article.querySelectorAll("pre > code, .md-typeset__scrollwrap")) block.tabIndex = 0;
}
reachBlocks();
new MutationObserver(reachBlocks).observe(article, { childList: true, subtree: true });
