// Applies the remembered theme before the first paint. A file of its own, since the policy allows no inline script.
(function () {
  try {
    var theme = localStorage.getItem("sentinel.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (_) {
    // Storage may be denied: the theme of the system applies.
  }
})();
